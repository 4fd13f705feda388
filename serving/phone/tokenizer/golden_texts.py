r"""Texts on which tokenizers tend to differ, written as escapes to show all characters.

None of the texts contains lone surrogates, because UTF-8 cannot represent them. Each
list of texts in this module contains a text that is longer than the row length in
`golden_ids.py`.
"""

TEXTS = (
    # Empty or invisible.
    "",
    " ",
    " \t\n\r ",
    "\u00a0\u2003\u3000",
    "\u200b\u200d\ufeff",
    "\x00",
    "\u0301",
    # Ordinary words.
    "the phone has to cut this text as the training did",
    "Numbers such as 3.14, 1,000,000 and 2nd; it's, we'll, they've - don't!",
    "  spaces   before,  between   and behind   ",
    "UPPER lower MiXeD",
    # White space and control characters.
    "tab\there, line\nthere\r\nand \x0b vertical \x0c page",
    "no\u00a0break thin\u2009space line\u2028end\u2029next\u0085one",
    "zero\u0000byte bell\x07 escape\x1b[0m delete\x7f c1\x9f",
    "soft\u00adhyphen zero\u200bwidth joiner\u2060 mark\ufeff",
    "left \u202bto right\u202c \u2066isolated\u2069",
    "replaced \ufffd here",
    # Combining marks.
    "caf\u00e9 and cafe\u0301, na\u00efve and nai\u0308ve",
    "a\u0301\u0323 a\u0323\u0301 \u1ea1\u0301 \u00e1\u0323",
    "q\u0334\u0300\u0345\u0489 \u0344",
    "\u1e9b\u0323 \u212b \u2126 \u01c5 \ufb01",
    "\u0915\u094d\u0937 \u0928\u093f \u0b95\u0bcd \u0e01\u0e33",
    "\u1b06\u1b44 \U0001d15f \u302e\u302f",
    # Special cases of upper case.
    "\u0130stanbul \u0131 I i \u1e9e \u00df \u03a3\u0391\u03a3",
    "\u10a0\u1c90\ua64a\U00010400 \u24b6 \u2163 \uff21",
    # Scripts.
    "\u4eba\u4eba\u751f\u800c\u81ea\u7531 and \u6f22\u5b57\u3068\u304b\u306a",
    "\uf900\ufa30 \U00020000\U0002f800 \u3006\u3007",
    "\ud55c\uad6d\uc5b4 \uac00\uac01 \u1112\u1161\u11ab",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0661\u0662\u0663",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u0451 \u0419",
    "\uff26\uff55\uff4c\uff4c \uff76\uff9e \u30ac",
    # Emoji.
    "\U0001f600\U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f 1\ufe0f\u20e3",
    # Punctuation and symbols.
    "a!b?c:d;e(f)g[h]{i}<j>k=l+m*n/o\\p|q~r`s^t@u#v$w%x&y_z",
    "\u201cquoted\u201d \u2013 \u2026 \u00ab\u20ac\u00bb \u00a7 \u00d7 \u037e \u1fef",
    "\u00bd \u00b2 \u2460 \u2168 \u0be7",
    # Names of special tokens, as ordinary text.
    "[CLS] [SEP] [MASK] [PAD] [UNK] ##ing ##",
    "<s> </s> <pad> <unk> <mask> <|endoftext|> <extra_id_0> <0x41>",
    "\u2581 \u2581\u2581a \u0120b",
    # Long texts.
    "x" * 100,
    "x" * 101,
    "\u00e9" * 100 + " " + "e\u0301" * 101,
    "\U0001f600" * 60,
    "word " * 40,
    # Private use and unassigned code points.
    "\ue000 \U000f0000 \U0010fffd \u0378 \ufdd0 \uffff",
)

PAIRS = (
    ("a question", "its answer"),
    ("", "nothing before"),
    ("nothing behind", ""),
    ("", ""),
    ("long " * 30, "short"),
    ("short", "long " * 30),
    ("both are long " * 10, "so both are cut " * 10),
)

# Texts in which `[MASK]` is the mask token.
MASKED = (
    "[MASK]",
    "the [MASK] of the [MASK].",
    "a[MASK]b [MASK][MASK]  [MASK]",
    "[mask] [MASK [ MASK] MASK]",
    "\u6f22[MASK]\u5b57 e[MASK]\u0301\n[MASK]\t",
    "word [MASK] " * 20,
)
