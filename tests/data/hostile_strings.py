"""Texts chosen to break whatever reads text, by what they try."""

_EMPTY_OR_BLANK = [
    "",
    " ",
    "   ",
    "\t\n\r ",
    "\n\n\n",
    "\u00a0",
    "\u3000 \u2003",
    "\u200b",
    "\x00",
    "\u0301",
]

_WHITE_SPACE = [
    "a\tb\nc\rd",
    "a\r\nb",
    " leading and trailing ",
    "a\x0bb\x0cc",  # vertical tab, form feed: control characters to BERT
    "a\x1cb\x1db\x1eb\x1fc",  # separators that Python calls white space
    "a\u0085b",  # next line
    "a\u00a0b\u1680c\u2003d\u202fe\u205ff\u3000g",
    "line\u2028separator\u2029paragraph",
    "a\u180eb",  # was white space once
    "a\u200bb\u2060c\ufeffd",  # zero width, not white space
    "\ufeffbyte order mark first",
]

_CONTROL = [
    "nul\x00inside",
    "\x00\x00a\x00",
    "\x01\x02bell\x07\x08back\x1b[31mred\x1b[0m\x7f",
    "c1 \x80\x81\x9f",
    "soft\u00adhyphen",
    "\u200eleft\u200fright \u202aembedded\u202c \u202eoverridden\u202d \u2066a\u2069",
    "invisible\u2061times\u2062plus\u2064",
    "tag \U000e0001\U000e0041\U000e0042\U000e007f",
    "annotation \ufff9a\ufffab\ufffb",
    "replacement \ufffd a\ufffdb",
    "arabic sign \u0600\u06dd syriac \u070f kaithi \U000110bd music \U0001d173",
]

_COMBINING = [
    "e\u0301 \u00e9",
    "a\u0301\u0300\u0323 a\u0323\u0300\u0301",  # two orders of the same marks
    "\u0301starts with a mark",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033da\u0334\u0319\u0324lgo",
    "combining grapheme joiner a\u034f\u0301b",
    "enclosed a\u20dd 1\ufe0f\u20e3",
    "\u0345 \u1e9b\u0323 \u01f0",
    "\u0bcd\u0c4d \u0939\u093f\u0928\u094d\u0926\u0940 \u0e01\u0e33",
    # Marks and letters that ICU knows and the Rust library's NFD does not.
    "a\u1dfa\u1df6b a\u1df6\u1dfab",
    "\u08ca\u08d3 \u0c3c\u0c4d",
    "\U00011938 \U00011935\U00011930 \U000105c9 \U00016121 \U00016d6a",
    "variation \u2764\ufe0f \u2764\ufe0e",
]

_CASE = [
    # Final sigma.
    "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 \u03a3\u0391\u03a3 \u039f\u03a3.",
    "\u0130stanbul I\u0307 \u0131 I i",
    "stra\u00dfe STRASSE \u1e9e",
    "\u01c4 \u01c5 \u01c6 \u1f88 \u1fb3",  # title case
    "\ufb01 \ufb03 \ufb05 \ufb13",  # ligatures
    "\u212a \u212b \u2126",  # Kelvin, Angstrom, Ohm
    "\u2163 \u24b6 \U0001d400 \U0001d552",
    "\u10a0 \u1c90 \u13a0 \uab70 \U00010400 \U0001e900",
    "\u0149 \u01f0 \u0390 \u1f80",
    "McDONALD iPhone ALLCAPS",
    "\u1c89 \ua7cb \ua7da \ua7dc \U00010d50 \U00016ea0",  # Unicode 16 and 17
]

_SCRIPTS = [
    "\u6f22\u5b57\u304b\u306a\u4ea4\u3058\u308a\u6587",
    "a\u6f22b\u5b57c",
    "\u3400\u4dbf\u9fff\ufa30 \U00020000\U0002a6df\U0002b820 \U00030000",
    "\uf900\u2f00\u2e80\u3006\u3007",
    "\uff26\uff55\uff4c\uff4c\uff11\uff0c \uff8a\uff9d\uff76\uff78",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\u0e44\u0e17\u0e22\u0e44\u0e21\u0e48\u0e21\u0e35\u0e0a\u0e48\u0e2d\u0e07",
    "\u05e9\u05c1\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \ufdfd \ufdfa",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u0451\u0439 \u0407",
    "Vi\u1ec7t Nam \u0110\u1eb7ng",
    "\u16a0\u16d6 \U00012000 \U00013000 \U0001f000",
]

_SYMBOLS = [
    "\U0001f600 \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7",
    "\U0001f44d\U0001f3fd \U0001f3f4\U000e0067\U000e0062\U000e007f \u270a",
    "$^`|~<>+= !\"#%&'()*,-./:;?@[\\]_{}",
    "don't re-do it... a,b;c",
    "\u2013\u2014\u2026\u201c\u201d\u00ab\u00bb\u3001\u3002\u061f\u0964",
    "\u20ac\u00a5\u00a3\u00a2 \u00b1\u00d7\u00f7 \u2460 \u00bd \u00b2 \u2122",
    "1,000.50 3.14e-10 0x1F 12:30 \u0661\u0662\u0663 \u096c",
    "\u037e \u1fef \u2024",  # decompose into punctuation
    "\u2e42 \u2e52 \u2e5d \u9fd0",  # punctuation that is newer than some tables
]

_SPECIAL_PIECES = [
    "[MASK]",
    "a[MASK]b",
    "[MASK][MASK] [MASK]",
    " [MASK] . [MASK]\n",
    "[mask] [ MASK] [MASK [[MASK]] MASK]",
    "[MA\x00SK] [MASK\u200b] [M\u0301ASK]",
    "\u6f22[MASK]\u5b57 e[MASK]\u0301",
    "\x0b[MASK]\x0c[MASK]",
    "[CLS] [SEP] [UNK] [PAD] [cls]",
    "##ing # ## ###a [unused1]",
]

_LONG = [
    "x" * 99,
    "x" * 100,
    "x" * 101,
    "x" * 400 + " " + "x" * 401,
    "a" * 99 + "." + "b" * 100,
    "\u044f" * 100,
    "\u044f" * 101,
    "\U0001f600" * 100,
    "\U0001f600" * 101,
    "\u00e9" * 100,  # 200 characters when decomposed, 100 when stripped
    "e\u0301" * 100,
    "e\u0301" * 101,
    "x" * 50 + "\u200b" * 60 + "x" * 50,
    "x" * 50 + "\u200b" * 60 + "x" * 51,
    "\u6f22" * 300,
    "\u0130" * 51,  # doubles when lower case
    "\uac00" * 40,  # doubles when decomposed
    "\uac01" * 40,  # triples
    "ab" * 5000,
    "word " * 2000,
]

_UNASSIGNED_AND_PRIVATE = [
    "a\ue000b\uf8ffc \U000f0000 \U0010fffd",
    "a\U000f0000\U000f0001b\U000f008ec",
    "a\ufdd0b\ufffec\uffffd \U0001fffe\U0010ffff",
    "a\u0378b\u0380c \U000e0080 \U00050000",
    "\ud7ff\ue000 \ud7fb",
]

HOSTILE_TEXTS: list[str] = [
    *_EMPTY_OR_BLANK,
    *_WHITE_SPACE,
    *_CONTROL,
    *_COMBINING,
    *_CASE,
    *_SCRIPTS,
    *_SYMBOLS,
    *_SPECIAL_PIECES,
    *_LONG,
    *_UNASSIGNED_AND_PRIVATE,
]

# Not UTF-8: to be read like `bytes.decode("utf-8", "replace")`.
HOSTILE_BYTES: list[bytes] = [
    b"\xff",
    b"a\xff\xfeb",
    b"\x80\x80 \xbfa",  # continuation bytes alone
    b"a\xe6\xbc",  # cut short at the end
    b"a\xe6\xbc b",  # ... at a space
    b"a\xe6\xbcb\xf0\x9f\x98c",  # ... inside a word
    b"\xc3\x0b\xa9 \xc3\x0c\xa9 \xc3\x00\xa9 \xc3\n\xa9",
    b"\xc0\xaf \xc1\xbf \xe0\x80\xaf",  # longer than need be
    b"a\xed\xa0\x80b \xed\xa0\xbd\xed\xb8\x80",  # surrogates
    b"\xf4\x90\x80\x80z \xf5\x80\x80\x80 \xf8\x88\x80\x80\x80",  # beyond U+10FFFF
    b"[MA\xffSK] [MASK]\xff \xe6[MASK]",
    "caf\u00e9".encode("latin-1"),
    "caf\u00e9".encode("utf-16"),
]
