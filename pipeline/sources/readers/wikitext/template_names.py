"""Template names, grouped by the text that a template shows, and related tables.

All names are in lower case.
"""


def _listed(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.replace("\n", ",").split(",")) - {""}


SHOW_THE_FIRST = _listed("""
    nowrap, nobr, nobreak, j, small, smaller, smalldiv, big, bigger, large, larger
    midsize, resize, center, sc, smallcaps, sc1, sc2, caps, allcaps, unicode
    abbr, abbrlink, tooltip, vanchor, visible anchor, linktext, mvar, var, math, bigmath
    em, strong, bold, italic, noitalic, nobold, strike, underline, sup, sub
    quote, blockquote, cquote, bquote, poem, nq, not a typo, notatypo, proper name, sic
    crossreference, see below, ill, interlanguage link, flag, flagcountry, flagu
    code, kbd, samp, mono, pre, ce, mp, music, ruby, title link, key press, plainlist
    railgauge, track gauge
    仮リンク, link-en, link-ja, link-de, link-fr, link-ru, le, zitat, cita, citazione
    cytat, fakt, comment, 読み仮名, ルビ
""")
SHOW_THE_SECOND = _listed("""
    lang, langx, lang-rtl, rtl-lang, script, color, colour, font color, fontcolor
    colored, sort, wt
""")
DATES = _listed("""
    death date and age, birth-date and age, death-date and age
    birth date, birth-date, birth date and age, bda, dob, death date, dda, start date
    start date and age, end date, release date, film date, dts, date, launch date
""")
SHIPS = _listed("hms, uss, ss, rms, mv, ms, hmas, hmcs, hmnz, usns, rv, ins, jds, gts")
# Templates that show a footnote mark, an editorial remark or nothing.
SILENT = _listed("""
    sfn, sfnp, sfnm, harv, harvnb, harvtxt, harvp, harvid, r, rp, ref, efn, efn-ua, refn
    note, notetag, ref label, note label, citation, fact, cn, clarify, why, when, who
    who?, which, which?, where, what, how, whom, by whom, specify, vague, dubious
    according to whom, update after, better source, full, or, pov, npov, anchor, anchors
    weasel-inline, clear, clr, -, flagicon, flag icon, coord, main, see also, further
    details, about, short description, use dmy dates, use mdy dates, use british english
    wayback, webarchive, dead link, isbn, issn, oclc, doi, pmid, pmc, refimprove
    self-published source, unreliable source?, qualify evidence, verify source
    failed verification, shy, wbr, zwj, zwnj, zwsp, reflist, toc, toc limit, notoc
    good article, featured article, authority control, in lang, expand section
    displaystyle, italic title
""")
SILENT_BEGINNINGS = ("cite ", "harv", "#tag:ref", "defaultsort:", "pp-")
CONSTANT = {
    **dict.fromkeys(_listed("nbsp, spaces, space, sp, thinsp, thin space, nnbsp"), " "),
    **dict.fromkeys(_listed("snd, spnd, spaced ndash, snds, ndash, en dash"), " – "),
    **dict.fromkeys(_listed("mdash, mdashb, em dash, spaced mdash, —, ---"), "—"),
    **dict.fromkeys(_listed("dot, ·, bullet, •, middot, bull"), " · "),
    **{name: name for name in ("–", "'", "'s", "' \"", "\" '", "=", "@")},
    **{"--": "–", "''": '"', '-"': '"', "`": "ʻ", "okina": "ʻ", "hamza": "ʼ"},
    **{"ayin": "ʽ", "(": "{", ")": "}", "((": "{{", "))": "}}", "!": "|", "!!": "||"},
    **{
        "pi": "π",
        "tau": "τ",
        "phi": "φ",
        "aka": "also known as",
        "bc": "BC",
        "ad": "AD",
    },
    **{"bce": "BCE", "sharp": "♯", "flat": "♭", "natural": "♮", "half": "1/2"},
    **{"x mark": "✗", "check mark": "✓", "infinity": "∞", "dagger": "†"},
}
# Group and decimal separators of the wikis' own languages in MediaWiki.
SEPARATORS = {
    **dict.fromkeys(_listed("en, simple, ja, zh, ko, he, th"), (",", ".")),
    **dict.fromkeys(
        _listed("de, it, nl, pt, id, tr, da, el, ro, hr, sl, sr, vi, ca, gl"),
        (".", ","),
    ),
    **dict.fromkeys(
        _listed(
            "fr, ru, uk, pl, cs, sk, sv, fi, no, nb, nn, bg, hu, es, et, lv, lt, be"
        ),
        ("\u00a0", ","),
    ),
}
RANGES = {
    **dict.fromkeys(["-", "–", "to(-)"], "–"),
    **{word: f" {word} " for word in ("to", "and", "or", "by")},
    **dict.fromkeys(["x", "×", "by(x)"], " × "),
    **dict.fromkeys(["+/-", "±", "+-"], " ± "),
}
UNITS = {
    **{"c": "°C", "f": "°F", "km2": "km²", "m2": "m²", "cm2": "cm²", "sqkm": "km²"},
    **{"sqmi": "sq mi", "sqft": "sq ft", "m3": "m³", "km3": "km³", "cm3": "cm³"},
    **{"cumi": "cu mi", "cuft": "cu ft", "usgal": "US gal", "impgal": "imp gal"},
    **{
        "floz": "fl oz",
        "lbft": "lb⋅ft",
        "inhg": "inHg",
        "acre": "acres",
        "kph": "km/h",
    },
    **{"mile": "mi", "miles": "mi", "metre": "m", "foot": "ft", "feet": "ft"},
    **{"inch": "in", "/km2": "/km²", "/sqmi": "/sq mi", "m/s2": "m/s²"},
}
POWERS = {"e3": "thousand", "e6": "million", "e9": "billion", "e12": "trillion"}
UNITS_WITH_PARTS = _listed("ft, lb, st, mi, yd")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
