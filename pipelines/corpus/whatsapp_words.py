"""The words that WhatsApp writes in exports, in several languages."""

from __future__ import annotations

import re
from typing import Final

MORNING: Final = frozenset({
    "am", "vorm", "πμ", "ص", "上午", "凌晨", "早上", "清晨", "오전", "午前", "öö", "fm", "de", "dop", "sa", "dg",
    "पूर्वाह्न", "पूर्वाह्", "nt", "pg", "pagi",
})  # fmt: skip
AFTERNOON: Final = frozenset({
    "pm", "nachm", "μμ", "م", "下午", "中午", "晚上", "오후", "午後", "ös", "em", "du", "odp", "ch", "ptg", "अपराह्न",
    "अपराह्", "petang", "malam",
})  # fmt: skip

_DELETED = (
    "this message was deleted", "you deleted this message", "this message was deleted by admin",
    "diese nachricht wurde gelöscht", "du hast diese nachricht gelöscht",
    "ce message a été supprimé", "vous avez supprimé ce message",
    "message supprimé", "se eliminó este mensaje",
    "este mensaje fue eliminado", "eliminaste este mensaje", "has eliminado este mensaje",
    "questo messaggio è stato eliminato", "hai eliminato questo messaggio", "mensagem apagada",
    "esta mensagem foi apagada",
    "você apagou esta mensagem", "apagou esta mensagem", "apagaste esta mensagem", "dit bericht is verwijderd",
    "je hebt dit bericht verwijderd", "u hebt dit bericht verwijderd", "данное сообщение удалено",
    "вы удалили данное сообщение", "bu mesaj silindi", "bu mesajı sildiniz", "pesan ini telah dihapus",
    "anda telah menghapus pesan ini", "ta wiadomość została usunięta", "usunięto tę wiadomość",
    "det här meddelandet raderades",
    "du raderade det här meddelandet", "denne besked blev slettet", "denne meldingen ble slettet",
    "tämä viesti poistettiin",
    "यह संदेश हटाया गया", "تم حذف هذه الرسالة", "لقد حذفت هذه الرسالة", "הודעה זו נמחקה",
    "このメッセージは削除されました", "此消息已删除", "你已删除此消息", "此訊息已刪除", "你已刪除此訊息",
    "이 메시지는 삭제되었습니다", "삭제된 메시지입니다",
)  # fmt: skip
DELETED: Final = re.compile("(?:" + "|".join(map(re.escape, _DELETED)) + r")[.。]?", re.IGNORECASE)

_THING = (
    r"(?:image|photo|picture|video(?: note)?|audio|gif|sticker|document|contact card|media|file|bild|foto|dokument|"
    r"kontaktkarte|visitenkarte|photo|vidéo|imagen|vídeo|documento|tarjeta de contacto|immagine|scheda contatto|imagem|"
    r"figurinha|afbeelding|contactkaart|изображение|видео|аудио|документ|стикер|карточка контакта|görüntü|resim|video|"
    r"ses|belge|çıkartma|obraz|dokument|naklejka|gambar|dokumen|stiker|メディア|画像|動画|图片"
    r"|圖片|视频|影片|音频|音訊|貼圖|贴图"
    r"|文件|사진|동영상)"
)
_OMITTED_WORD = (
    r"(?:omitted|weggelassen|ausgeschlossen|absente?s?|omise?s?|omitid[oa]s?|omess[oaie]|ocultad?[oa]s?|oculta"
    r"|weggelaten|"
    r"опущен[оаы]?|пропущен[оаы]?|dahil edilmedi|utelämnad|udeladt|utelatt|pominięt[oay]|pominięto|tidak disertakan|"
    r"なし|は含まれていません|已忽略|已略去|忽略|생략됨|생략)"
)
OMITTED: Final = re.compile(
    rf"(?:[^\n]{{1,200}} • (?:\d{{1,5}} \S{{1,12}} )?)?\W*{_THING} ?{_OMITTED_WORD}\W*", re.IGNORECASE
)
"""``image omitted``, ``report.pdf • 3 pages document omitted``."""

ATTACHED: Final = re.compile(
    r"<[^<>\n:：]{2,30}[:：] ?[^<>\n]{1,200}\.[A-Za-z0-9]{2,5}>|"
    r"^[^\n/]{1,200}\.(?:jpe?g|png|gif|webp|heic|mp4|3gp|mov|opus|m4a|aac|amr|mp3|ogg|wav|pdf|docx?|xlsx?|pptx?"
    r"|txt|csv|"
    r"vcf|zip|apk) ?\([^()\n]{3,60}\)$",
    re.IGNORECASE | re.MULTILINE,
)
"""``<attached: 0001-PHOTO.jpg>``, ``IMG-20240312-WA0001.jpg (file attached)``. Text beside it is a caption."""

BRACKETED: Final = re.compile(r"<(?=[^<>]*(?:[^\x00-\x7f]|[A-Za-z] [A-Za-z]))[^<>=/{}\n;]{3,60}>")
"""``<Media omitted>`` in any language. HTML of a message has one word, or signs that no language uses."""

EDITED: Final = re.compile(
    r"\u200e?<[^<>\n]{0,40}(?:edited|bearbeitet|modifi|edit[óa]|bewerkt|изменено|düzenlendi|edytowan|diedit|redigera"
    r"|редактир|編集|编辑|編輯)[^<>\n]{0,40}>\s{0,3}$",
    re.IGNORECASE,
)
"""``<This message was edited>`` behind a text."""

FILE_NAME: Final = re.compile(r"^[^\n]{0,200} • [^\n]{0,40}\s{0,3}$")
"""The name and the pages of an attached document."""

NOTICE: Final = re.compile(
    r"(?:messages and calls are|messages to this (?:chat|group)|messages you send to|nachrichten (?:und anrufe"
    r"|in diesem chat|an diesen)|les messages (?:et les appels )?(?:envoyés|sont)"
    r"|los mensajes y las llamadas|i messaggi e le chiamate|as mensagens e (?:as )?(?:chamadas|ligações)"
    r"|berichten en oproepen|"
    r"сообщения и звонки|mesajlar ve aramalar|mesajlar ve çağrılar)\b[^\n]{0,60}?(?:encrypt|verschlüssel|chiffr"
    r"|cifrad|crittograf|"
    r"criptograf|versleuteld|зашифрован|защищен|şifrel|secured)",
    re.IGNORECASE,
)
"""Notice of encryption, which iOS gives a speaker."""
