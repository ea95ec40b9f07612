"""Names for canaries: common English first and last names, which refer to nobody in a corpus."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES: Final = _words(
    """
    Aaron Abigail Adam Adrian Alan Albert Alice Amanda Amber Amy Andrea Andrew Angela Anna Anthony Arthur
    Audrey Barbara Beatrice Benjamin Bernard Beverly Brandon Brenda Brian Bruce Carl Carol Caroline Catherine
    Charles Charlotte Cheryl Christine Clara Colin Craig Cynthia Daniel David Deborah Dennis Diana Donald
    Donna Doris Dorothy Douglas Edgar Edith Edward Eleanor Elizabeth Emily Emma Eric Ethan Eugene Evelyn Felix
    Florence Frances Frank Frederick Gabriel Gary George Gerald Gloria Gordon Grace Gregory Hannah Harold
    Harriet Heather Helen Henry Howard Hugh Irene Isaac Isabel Ivan Jacob James Janet Jason Jean Jeffrey
    Jennifer Jeremy Jessica Joan Joel John Jonathan Joseph Joyce Judith Julia Julian Karen Katherine Keith
    Kenneth Kevin Kimberly Laura Lawrence Leonard Leslie Lillian Linda Louis Lucy Lydia Margaret Maria Martha
    Martin Matthew Megan Michael Monica Nancy Natalie Nathan Nicholas Nicole Oliver Olivia Oscar Pamela
    Patricia Paul Peter Philip Rachel Ralph Raymond Rebecca Richard Robert Roger Ronald Rose Russell Ruth Ryan
    Samuel Sandra Sarah Scott Sharon Sheila Simon Sophia Stanley Stephanie Stephen Susan Sylvia Teresa
    Theodore Thomas Timothy Tracy Ursula Valerie Vanessa Vera Victor Victoria Vincent Virginia Walter Warren
    Wendy William Zachary
    """
)
LAST_NAMES: Final = _words(
    """
    Adams Alexander Allen Anderson Armstrong Bailey Baker Barnes Bell Bennett Bishop Black Boyd Bradley Brooks
    Brown Bryant Burke Burns Butler Campbell Carpenter Carroll Carter Chapman Clark Coleman Collins Cooper
    Crawford Cunningham Davidson Davis Dawson Dixon Douglas Duncan Edwards Elliott Ellis Evans Ferguson Fisher
    Fletcher Ford Foster Fowler Fox Freeman Fuller Gardner Gibson Gilbert Gordon Graham Grant Gray Green
    Griffin Hall Hamilton Harper Harris Harrison Hart Harvey Hayes Henderson Henry Hicks Hill Holmes Howard
    Hudson Hughes Hunt Hunter Jackson Jacobs James Jenkins Jennings Johnson Johnston Jones Jordan Kelley
    Kennedy King Knight Lane Larson Lawrence Lawson Lewis Lynch Marshall Martin Mason Matthews McCarthy
    McDonald Miller Mills Mitchell Montgomery Moore Morgan Morris Morrison Murphy Murray Myers Nelson Newman
    Nichols Olson Owens Palmer Parker Patterson Payne Perkins Perry Peterson Phillips Pierce Porter Powell
    Price Ramsey Reed Reynolds Rice Richards Richardson Riley Roberts Robertson Robinson Rogers Rose Ross
    Russell Ryan Sanders Schmidt Scott Shaw Simmons Simpson Smith Snyder Spencer Stephens Stevens Stewart
    Stone Sullivan Taylor Thompson Tucker Turner Wagner Walker Wallace Ward Warren Watkins Watson Weaver Webb
    Weber Welch Wells West Wheeler White Williams Williamson Willis Wilson Wood Woods Wright Young
    """
)
