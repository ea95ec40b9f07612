"""A closed list of everyday English words, written for `ConservativePolicy`.

What is not here is treated as a possible secret, so the list leaves out on purpose: names of people, places, firms,
days and months; words of health, faith, origin, politics, crime and sex; and number words, which the policy counts on
their own. Inflected forms are made by rule; a form that is not a word can do no harm, since nobody writes it.
"""

from __future__ import annotations

from typing import Final

_FUNCTION = """
a about above across after again against all almost along already also although always am among an and another any
anybody anyone anything anyway anywhere are aren't around as at away back be because been before behind being below
beneath beside besides between beyond both but by can can't cannot could couldn't did didn't do does doesn't doing
don't done down during each either else enough even ever every everybody everyone everything everywhere except few for
from further had hadn't has hasn't have haven't having he he'd he'll he's hence her here here's hers herself him
himself his how how's however i i'd i'll i'm i've if in indeed inside instead into is isn't it it'd it'll it's its
itself just least less let's like may maybe me might mine more most much must my myself near neither never nobody none
no-one nor not nothing now nowhere of off often on once only onto or other others otherwise our ours ourselves out
outside over own per perhaps quite rather really same several shall she she'd she'll she's should shouldn't since so
some somebody somehow someone something sometimes somewhere soon still such than that that'd that'll that's the their
theirs them themselves then there there'd there'll there's therefore these they they'd they'll they're they've this
those though through throughout thus till to together too toward towards under unless until unto up upon us used very
via was wasn't we we'd we'll we're we've were weren't what what'll what's whatever when when's whenever where where's
wherever whether which whichever while who who'd who'll who's whoever whole whom whose why why's will with within
without won't would wouldn't yet you you'd you'll you're you've your yours yourself yourselves gonna gotta wanna kinda
i'd've n't 's 've 'll 're 'd 'm dont cant im ive id youre thats didnt doesnt isnt wont whats arent couldnt hadnt
hasnt havent heres hes hows itll shes shouldnt theres theyll theyre theyve wasnt werent weve wheres wouldnt youll youve
ur cuz coz
"""

_COURTESY = """
hello hi hey goodbye bye bye-bye thanks thank please sorry welcome yes yeah yep yup yea no nope nah ok okay sure
certainly absolutely definitely exactly correct right great good fine perfect wonderful excellent awesome alright cool
nice congratulations cheers greetings pardon apologies apologize apologise regards sincerely glad happy pleasure well
oh ah hmm um uh wow oops aha ha haha hahaha hehe lol omg pls plz thx thnx thanx np
"""

_NUMBER = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion double triple
nought dash dot hyphen underscore
"""

SMALL_NUMBERS: Final = frozenset({"one", "two", "three", "double", "triple", "dash"})
"""Number words that say nothing by themselves; a larger number may be an age, a price, a house."""

UNITS: Final = frozenset(
    {"am", "pm", "percent", "year", "years", "month", "months", "week", "weeks", "day", "days", "hour", "hours"}
    | {
        "minute",
        "minutes",
        "pound",
        "pounds",
        "cent",
        "cents",
        "inch",
        "inches",
        "nights",
        "night",
        "people",
        "persons",
    }
    | {"person", "kids", "children", "of", "old"}
)
"""Words that make a number, even a small one, the answer to how many, how long, how old."""

# Everyday words that are names as well; the policy looks at their case and their neighbours.
_AMBIGUOUS = """
ball best black bright bridge bridges brown case chance cross early fields flower flowers glass golden green guy hall
handy head hope house judge key light little long love may page park pool post price quick rich royal short sharp
small smart soon strong summer sweet wall white will wine winter wise wood worth young
"""

# Words that the lists or rules below make, and that are names of people often enough to be one in lower case.
_NAMES = """
art arts author bare bath bent bins bird bitten boss brands burns carry comfort cook cooks deep drew dries fancy fed
field forum gates general glasses gray grey journey kick kiss lady lucky major mat mats mile miles minor odd orange
parks peace pink pleasant powers precious ring roll rush sang sellers server sing sky snow son sons star stars storm
swift tea ties tiny tone tore toy van walls waters woods
"""

# Everyday words that are, as an answer, the very thing asked for: what was ordered, which seat.
_CHOICES = """
aisle aisles cable cables internet middle seat seats window windows
"""

_VERBS = """
accept access accompany achieve act activate add adjust admit advise affect afford agree aim allow announce annoy
answer appear apply appreciate approach approve argue arrange arrive ask assist assume assure attach attempt attend
avoid bake balance base beg behave believe belong block board boil book borrow bother bounce brush burn bump call
cancel carry cause celebrate change charge chat check cheer claim clean clear click climb close collect combine
comment commit compare complain complete concern confirm confuse connect consider consist contact contain continue
control convert cook copy correct count cover crash create cross cry dance date decide decline decrease delay delete
deliver demand deny depend describe deserve design destroy develop dial differ direct disagree disappear disappoint
disconnect discover discuss dislike display divide download drag dream dress dry edit email employ empty enable
encourage end enjoy ensure enter escalate estimate examine exchange excite excuse exist expand expect experience
expire explain explore express extend face fail fasten favor fax fear figure fill finish fit fix flash float flow
focus fold follow force forward function gain gather generate glue greet grab guarantee guess guide hand handle hang
happen hate head heat help hesitate hire hurry identify ignore imagine improve include increase indicate inform
inquire insert insist inspect install instruct intend interest interrupt introduce invite involve iron issue join joke
judge jump justify kick kiss knock label lack land last laugh launch learn lift limit line link list listen load
locate lock log look lower mail maintain manage manufacture match matter measure mention mind miss mix monitor move
name need note notice notify number object obtain occur offer open operate order organize organise own pack paint park
participate pass pause perform permit phone pick place plan play point polish possess post pour practice practise
prefer prepare present press pretend prevent print process produce program promise promote propose protect provide
publish pull purchase push question queue race rain raise reach react realize realise receive recognize recognise
recommend record recover reduce refer reflect refresh refund refuse register regret reject relate relax release rely
remain remember remind remove rename renew rent repair repeat replace reply report represent request require rescue
research reserve resolve respect respond rest restart restore result retain retire retry return reveal reverse review
roll rub ruin rush sail sample satisfy save scan schedule scratch scream search seem select separate serve settle
share ship shop shout show sign signal sip skip slip slow smell smile smoke solve sort sound spell spill spoil spot
squeeze stamp stare start state stay step stop store stream stretch struggle study submit subscribe succeed suffer
suggest supply support suppose surprise surround suspect suspend swap switch talk tap taste tease telephone tend test
text thank tick tidy tie tour touch track trade train transfer translate transport travel treat trip trust try turn
type unlock unpack update upgrade upload use vary verify view visit voice wait walk wander want warm warn wash waste
watch water wave weigh whisper wipe wish wonder work worry wrap yell authenticate reorder reschedule misplace
reactivate deactivate rebook validate troubleshoot reboot resend
"""

_NOUNS = """
ability day accident account accessory action activity addition address adult advantage advice afternoon age agency
agent agreement air airline airport alarm album alternative amount angle animal answer apartment app appearance apple
application appointment area argument arm arrangement arrival art article aspect assistance assistant attachment
attempt attention audience author authority availability average baby bag baggage ball balloon band bar basis basket
bath bathroom battery beach bed bedroom beginning behavior behaviour belt bench benefit bicycle bike bin bird birthday
bit blanket block board boat body bonus book booking boot border boss bottle bottom bowl box boy bracelet brand bread
breakfast breath bridge brother browser building bus business button buyer cable cake call camera campaign car card
care career carpet carrier cart cash cat catalog category cell center centre chain chair change channel character
charge charger chat check checkout chicken child choice class classic clerk client clock closet clothes cloud club
coat code coffee collection college color colour column combination comfort command comment communication community
company comparison competition complaint computer concept concern condition conference confidence confirmation
confusion connection consideration contact content contest context contract control conversation cookie copy corner
cost couch country couple coupon courier course cover credit crowd cup currency customer cycle dad damage data
database daughter deadline deal debit debt decade decision degree delay delivery demand department departure deposit
depth description desk destination detail device dialog dialogue difference difficulty dinner direction director
discount discussion dish disk display distance document dog door doubt drawer drawing dress drink driver drive
duration duty ear earring edge education effect effort egg electricity element elevator email emergency employee
employer end energy engine engineer entrance entry envelope environment equipment error evening event example exchange
exercise exit expectation expense experience expert explanation extension eye fabric face facility fact factory
failure fall family fan fare fashion father fault feature fee feedback feeling fence field figure file film finger
fire fish flight floor flower folder food foot form format forum frame freedom friend front fruit fuel fun function
furniture future game gap garage garden gas gate gift girl glass glove goal grade grass ground group growth guarantee
guest guide guitar guy habit hair half hall hand handle handbag hardware hat head headphone heart heat height help
helper history hobby holiday home hotel hour house household husband ice idea image impact importance impression
improvement inch incident income increase industry info information insurance instruction instrument interest internet
interview invoice issue item jacket jewelry job journey juice keyboard key kid kind kitchen knife knowledge label lack
ladder lady lamp land language laptop layer lead leader leg length lesson letter level library license life light
limit line link lipstick list living load loan location lock loss lot lounge luck luggage lunch machine magazine mail
mailbox mailman management manager manner manual map market mat material matter meal meaning measure meat medium
meeting member membership memory menu message metal method middle mile milk mind minute mirror mistake mode model
moment money monitor month mood morning mother motor mouse mouth movie mug mum music name nation nature neck necklace
neighbor neighbour network news newspaper night noise note notebook nothing notice notification number object occasion
offer office officer oil opening operation operator opinion opportunity option order organization organisation origin
outcome outfit outlet oven owner pack package packet page pair pan pants paper parcel parent park parking part partner
party passenger password past path pattern payment peace pen pencil people percent percentage performance period
permission person phone photo photograph phrase piano picture piece pillow pin pipe place plan plane plant plastic
plate platform player plenty pocket policy pool portion position possibility pot potato pound power practice
preference presence present pressure price printer priority privacy problem procedure process product profile profit
program progress project promise proof property proposal protection provider purchase purpose purse quality quantity
quarter query question queue quote rain range rate rating reach reader reality reason receipt reception recipe
recommendation record reference refrigerator refund region registration relation relationship release remark reminder
remote rent repair replacement reply report representative reputation request requirement reservation resolution
resource respect response responsibility rest restaurant result return review reward ring rise risk robot role roof
room route routine row rule run safety salary sale salad salt sand sandwich satisfaction savings scale scene schedule
school science screen seat second section security seller selection sense sentence series server service session set
setting shape share sheet shelf shipment shipper shipping shirt shock shoe shop shopping shoulder shower side sign
signature sink sister site situation size skill skin skirt sky sleep smartphone smell smile snack snow soap sock sofa
software solution son song sort sound soup source space speaker speech speed spelling spoon sport spot stack staff
stage stair stamp standard star start state statement station status step stock stomach stop storage store storm story
stove stranger street strength stress structure student studio stuff style subject subscription success sugar
suggestion suit suitcase summary sun supermarket supper supplier supply support surface surprise sweater switch symbol
system table tablet tail talk task taste tax taxi tea teacher team technician technology telephone television
temperature term test text theater theatre thing thought ticket tie time tip tire title toast today toilet tomorrow
tone tonight tool tooth top topic total touch tour towel tower town toy track tracking tracker trade traffic train
transaction transfer transport trash travel traveler treat tree trial trip trouble trousers truck trunk trust truth
tube turn type umbrella unit update upgrade usage user username vacation value van variety vase vegetable vehicle
vendor verification version video view village visit visitor voice volume voucher wait walk wall wallet warehouse
warning warranty washer waste watch water way weather web website wedding week weekend weight wheel wife wifi wind
window wine winner wish woman wonder wood word worker world worth writer writing yard year yesterday zip zone bot
chatbot hold inconvenience assurance
"""

_OTHER = """
able great abroad absent acceptable accidentally according accurate active actual actually additional adequate afraid
ago ahead alike alive alone aloud amazing angry annual anxious apart apparently appropriate approximately ashamed asleep
automatic automatically available average aware awful awake awhile bad badly bare basic basically beautiful better big
bigger biggest bit blank blue bored boring bottom brave brief briefly bright broad broken busy calm capable careful
carefully careless central certain cheap cheaper cheapest chief clear clearly clever closely closed closer cold
comfortable common commonly complete completely complex complicated concerned confident confused constant constantly
content convenient cool correctly costly crazy current currently curious cute daily damaged dangerous dark deep deeply
defective delicious delighted delicate desperate detailed different differently difficult digital direct directly
dirty disappointed double-check downstairs due duly dull duplicate eager earlier earliest easier easiest easily easy
economic effective efficient electric electronic elegant elsewhere embarrassed empty enormous entire entirely equal
equally especially essential estimated eventual eventually everyday evident exact excited exciting existing expensive
expired express extra extremely fair fairly faithfully familiar famous fancy far farther fast faster fastest favorite
favourite faulty final finally first firm fixed flat flexible following foolish foreign forever formal former formerly
forth fortunate fortunately forward free freely frequent frequently fresh friendly front full fully fun funny
furthermore general generally gentle gently genuine giant given glad gladly global golden gone gorgeous gradually
grateful greater greatest green grey gray grown guilty handy happily happier hard harder hardly harmful healthy heavy
heavily helpful high higher highest highly honest honestly horrible hot huge hungry hurried ideal identical immediate
immediately important impossible impressive inc included including incomplete incorrect incorrectly incredible initial
initially inner instant instantly intact interested interesting internal international invalid joint keen key kindly
large larger largest last lastly late lately later latest latter lazy least left legal lesser light likely likewise
limited linked little live lively local lonely longer longest loose lost loud loudly lovely low lower lowest lucky mad
main mainly major manually many maximum meanwhile mentioned mere merely mid mild minimum minor missing mobile modern
monthly moreover mostly moved multiple mutual narrow nasty national natural naturally nearby nearer nearest nearly
neat necessarily necessary negative nervous net new newer newest newly next nicely nicer noisy normal normally noted
obvious obviously occasional occasionally odd official offline old older oldest online open opposite optional orange
ordinary original originally outdoor outer outgoing overall overnight overdue overseas paid pale partial particular
particularly partly patient patiently peaceful pending permanent permanently personal personally physical pink plain
pleasant pleased plus poor popular portable positive possible possibly potential potentially powerful practical
precious precise precisely preferred prepaid pretty previous previously primary prior private probable probably
professional prompt promptly proper properly proud public purple quick quicker quickest quickly quiet quietly random
rapid rare rarely raw ready real realistic reasonable recent recently red regarding regardless regular regularly
related relevant reliable remaining remote repeatedly respectively responsible round rough roughly rude sad sadly safe
safely satisfied scared secondary second secure securely seldom senior sensible separately serious seriously sharp
shiny short shorter shortly shut shy similar similarly simple simply single slight slightly slim slow slower slowly
small smaller smallest smart smooth smoothly social soft sold solely solid sometime soon sooner soonest special
specific specifically spare stable standard steady stiff straight straightforward strange strict strong stronger
strongly stuck stupid sturdy successful successfully sudden suddenly sufficient suitable super surely surprised
surprising sweet swift swiftly tall technical temporary temporarily terrible terribly terrific thick thin third
thirsty thoroughly tight tiny tired top total totally tough traditional tremendous true truly twice typical typically
ugly ultimate ultimately unable unavailable unclear uncomfortable unexpected unfair unfortunate unfortunately unhappy
unique unknown unlike unlikely unlimited unnecessary unpleasant unread unusual upcoming upper upset upstairs urgent
urgently useful useless usual usually valid valuable various vast viable virtual visible warm weak weekly weird wet
whatsoever wide widely wild willing willingly wise wooden worse worst worth worthless worthy wrong wrongly yearly
yellow yet younger youngest black white brown asap etc eg ie vs pm faq gps tv usb pdf cd dvd pc url wifi idk btw brb
tbh imo fyi dunno gimme lemme tho ppl
"""

_IRREGULAR = """
arise arose became become becoming began begin beginning begun bend bent bet bite bit bitten blew blow blown bought
break breaking broke bring bringing brought build building built buy buying came caught choose choosing chose chosen
come comes coming cost costs cut cutting deal dealing dealt draw drawn drew drink drank drive driven drove driving eat
ate eaten eating fall fallen fell feed fed feel feeling feels felt find finding finds fight fought flew flies fly
flying flown forbid forget forgets forgetting forgot forgotten forgive forgiven forgave freeze froze frozen gave get
gets getting give given gives giving go goes going gone got gotten grew grow growing grown hear heard hearing hears
held hid hidden hide hit hold holding holds hurt keep keeping keeps kept knew know knowing known knows laid lay lead
leading led leave leaves leaving left lend lent let lets letting lie lied lit lose loses losing lost made make makes
making mean means meant meet meets meeting met mistake mistaken mistook overcome overpaid pay paid paying pays prove
proven put puts putting quit ran read reading reads rebuild reset ride rode riding ring rang rise risen run running
runs said sang sat saw say saying says see seeing seek seen sees sell selling sells send sending sends sent set sets
setting shake shook shine shone shoot shot shown showed shows showing shut sing sit sits sitting sleep sleeping slept
slid slide sold sought speak speaking speaks spend spends spending spent spoke spoken split spread stand standing
stands stick stole stolen stood strike struck swam swim take taken takes taking taught teach tell telling tells think
thinking thinks thought threw throw throwing thrown told tore torn took understand understanding understands
understood undo undone upset wake waking woke woken wear wearing wears went win winning wins withdraw withdrawn
withdrew won wore worn write writes writing written wrote resent resending children feet women people teeth mice lives
shelves knives wives halves data media
"""


def word_set(text: str) -> frozenset[str]:
    """The words of a text, each once."""
    return frozenset(text.split())


def _doubles(verb: str) -> bool:
    """Whether a short verb doubles its last letter: stop, stopping."""
    return 3 <= len(verb) <= 4 and verb[-1] not in "aeiouwxy" and verb[-2] in "aeiou" and verb[-3] not in "aeiou"


def _inflect_verb(verb: str) -> set[str]:
    if verb.endswith("e"):
        return {verb, verb + "s", verb + "d", verb[:-1] + "ing"}
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return {verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"}
    plural = verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh")) else "s")
    stems = {verb, verb + verb[-1]} if _doubles(verb) or verb in _DOUBLING else {verb}
    return {verb, plural} | {stem + ending for stem in stems for ending in ("ed", "ing")}


def _inflect_noun(noun: str) -> set[str]:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return {noun, noun[:-1] + "ies"}
    return {noun, noun + ("es" if noun.endswith(("s", "x", "z", "ch", "sh")) else "s")}


_DOUBLING = frozenset(
    {"cancel", "refer", "prefer", "occur", "transfer", "travel", "label", "submit", "admit", "commit"}
)

FUNCTION_WORDS: Final = word_set(_FUNCTION)
"""Closed-class words: a sentence without any of them, or of the courtesy words, is no ordinary sentence."""

COURTESY_WORDS: Final = word_set(_COURTESY)
"""Greetings, thanks, assent: these alone can make up an ordinary sentence."""

NUMBER_WORDS: Final = word_set(_NUMBER)
"""Number words, and the words that dictate a number: one alone is harmless, a row of them is a number."""

AMBIGUOUS_WORDS: Final = word_set(_AMBIGUOUS)
"""Everyday words that are also names."""

BASE_VERBS: Final = word_set(_VERBS)
"""Regular verbs, as they stand behind "to" and "will"."""

VERB_FORMS: Final = frozenset(form for verb in BASE_VERBS for form in _inflect_verb(verb)) | word_set(_IRREGULAR)
"""Every form of a verb, and a few irregular nouns."""

NOUNS: Final = frozenset(form for noun in word_set(_NOUNS) for form in _inflect_noun(noun))
"""Nouns, one and many."""

COMMON_WORDS: Final = (
    (FUNCTION_WORDS | COURTESY_WORDS | AMBIGUOUS_WORDS | VERB_FORMS | word_set(_OTHER) | NOUNS)
    - word_set(_NAMES)
    - word_set(_CHOICES)
)
"""Every word that may stand in a public sentence, lower case, number words aside."""
