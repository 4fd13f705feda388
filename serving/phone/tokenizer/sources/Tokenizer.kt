package transbeam

import java.util.PriorityQueue
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/*
 * Encodes text to token ids and decodes ids on a phone, exactly as in training.
 *
 * One data file contains the vocabulary, the tokenization rules and the Unicode tables,
 * because those of a phone depend on the version of its operating system. This file
 * needs `org.json`, which Android has. `tokenizer.py` and `Tokenizer.swift` have the
 * same parts in the same order; whoever changes one changes all three.
 *
 *     val tokenizer = Tokenizer(assets.open("phone_tokenizer.json").reader().readText())
 *     val row = tokenizer.frame(tokenizer.encode("a text"), 128)
 *     row.tokenIds.toIntArray() // and paddingMask, segmentIds: the model's inputs
 *
 * In a unit test of the application, `tokenizer.disagreements(golden)` has to be empty,
 * where `golden` is the content of `golden_ids.json`.
 */

private const val FORMAT = "transbeam-phone-tokenizer"
private const val VERSION = 1
private const val LONGEST = 200_000 // bytes of a text in UTF-8; longer ones fail
private const val SPACE = "\u2581" // SentencePiece's symbol for a space
private const val REPLACEMENT = "\uFFFD" // replaces invalid UTF-8

/** The data file cannot be used. */
class BadDataException(message: String, cause: Throwable? = null) :
    IllegalArgumentException(message, cause)

/**
 * The inputs of a model: each list has the requested length.
 *
 * @property tokenIds The ids of the pieces, then padding.
 * @property paddingMask 1 for pieces, 0 for padding.
 * @property segmentIds 1 on the second text of a pair and the separator after it.
 * @property truncated Whether the text was cut to the length.
 */
data class Row(
    val tokenIds: List<Int>,
    val paddingMask: List<Int>,
    val segmentIds: List<Int>,
    val truncated: Boolean,
)

/**
 * A WordPiece, byte-level BPE or SentencePiece tokenizer.
 *
 * @param json The content of `phone_tokenizer.json`.
 * @throws BadDataException It has another format, or a part is missing.
 */
class Tokenizer(json: String) {
    /** The pieces in the order of their ids. */
    val pieces: List<String>
    val pad: Int
    val unknown: Int?
    val begin: Int?
    val end: Int?
    /** The tokens that end a generated text, including `end`. */
    val ends: List<Int>
    val mask: Int?
    private val maskText: String
    private val wholePieces: List<Int> // added tokens, the longest first
    private val folded: Set<Int> // added tokens that match in any case
    private val frame: Frame? // null if there are no tokens to frame a text with
    private val engine: Engine

    init {
        try {
            val data = JSONObject(json)
            check(data)
            val special = data.getJSONObject("special")
            pieces = data.strings("pieces")
            pad = special.getInt("pad")
            unknown = special.intOrNull("unknown")
            begin = special.intOrNull("begin")
            end = special.intOrNull("end")
            ends = listOfNotNull(end) + special.optJSONArray("stop")?.ints().orEmpty()
            frame = frameFrom(data, begin, end)
            mask = special.intOrNull("mask")
            maskText = data.getString("mask_text")
            wholePieces = data.optJSONArray("whole")?.ints().orEmpty()
            folded = data.optJSONArray("folded")?.ints().orEmpty().toSet()
            engine = when (data.getString("kind")) {
                "wordpiece" -> WordPiece(data)
                "byte_bpe" -> ByteBPE(data)
                else -> SentencePiece(data)
            }
        } catch (error: JSONException) {
            throw damaged(error)
        } catch (error: IndexOutOfBoundsException) {
            throw damaged(error)
        } catch (error: NoSuchElementException) {
            throw damaged(error)
        } catch (error: NumberFormatException) {
            throw damaged(error)
        }
    }

    /**
     * Encodes a text without special tokens; their names in it are ordinary text.
     *
     * @throws IllegalArgumentException The text is too long.
     */
    fun encode(text: String): List<Int> = aroundWhole(whole(limited(text)))

    /** Encodes a text; added tokens in it become one id each. */
    private fun aroundWhole(text: String): List<Int> {
        if (wholePieces.isEmpty()) return engine.encode(text)
        val ids = mutableListOf<Int>()
        var start = 0
        var place = 0
        while (place < text.length) {
            val piece = wholeAt(text, place)
            if (piece == null) {
                place += 1
                continue
            }
            ids += engine.encode(text.substring(start, place))
            ids += piece
            place += pieces[piece].length
            start = place
        }
        return ids + engine.encode(text.substring(start))
    }

    /** Returns the longest added token that begins at a position. */
    private fun wholeAt(text: String, place: Int): Int? = wholePieces.find { id ->
        val piece = pieces[id]
        val fits = place + piece.length <= text.length
        fits && piece.indices.all {
            val a = text[place + it]
            a == piece[it] || (id in folded && lower(a) == lower(piece[it]))
        }
    }

    /**
     * Returns the text unchanged.
     *
     * @throws IllegalArgumentException It is too long.
     */
    fun limited(text: String): String {
        val size = text.toByteArray().size
        require(size <= LONGEST) { "a text of $size bytes: expected $LONGEST at most" }
        return text
    }

    /**
     * Encodes like `encode`, but each `[MASK]` in the text becomes the mask token.
     *
     * @throws IllegalArgumentException The vocabulary has no mask token, or the text is
     * too long.
     */
    fun encodeWithMasks(text: String): List<Int> {
        requireNotNull(mask) { "the vocabulary has no piece that hides a token" }
        val parts = limited(text).split(maskText)
        val ids = mutableListOf<Int>()
        for ((number, part) in parts.withIndex()) {
            val isLast = number == parts.size - 1
            // Spaces before a mask belong to the masked word.
            ids += encode(if (isLast) part else part.trimEnd(' '))
            if (!isLast) ids += mask
        }
        return ids
    }

    /** Returns `count` positions of a row's mask tokens, padded with 0. */
    fun maskedPositions(row: Row, count: Int): List<Int> {
        val places = row.tokenIds.indices.filter { row.tokenIds[it] == mask }
        return (places + List(count) { 0 }).take(count)
    }

    /**
     * Returns a text with its special tokens and padding.
     *
     * An encoder's text is `[CLS] text [SEP]`. A text that is too long is truncated.
     *
     * @throws IllegalArgumentException The vocabulary has no special tokens, or
     * `length` is too small.
     */
    fun frame(ids: List<Int>, length: Int): Row {
        val (before, _, after, alone) = frameOf(length, 1)
        val room = length - before.size - after.size
        val kept = (before + ids.take(room) + after).ifEmpty { alone }
        return padded(kept, kept.size, length, ids.size > room)
    }

    /**
     * Returns a pair of texts with its special tokens and padding.
     *
     * An encoder's pair is `[CLS] first [SEP] second [SEP]`. If it is too long it is
     * truncated longest-first: at the end of its longer text until both are equally
     * long, then at the ends of both in turn, the second text first.
     *
     * @throws IllegalArgumentException The vocabulary has no special tokens, or
     * `length` is too small.
     */
    fun framePair(first: List<Int>, second: List<Int>, length: Int): Row {
        val (before, between, after) = frameOf(length, 2)
        val room = length - before.size - between.size - after.size
        val ofFirst = minOf(first.size, maxOf(room - second.size, (room + 1) / 2))
        val ofSecond = minOf(second.size, room - ofFirst)
        val head = before + first.take(ofFirst) + between
        val kept = head + second.take(ofSecond) + after
        return padded(kept, head.size, length, first.size + second.size > room)
    }

    /**
     * Returns an encoder's input for a seq2seq model: `text </s>` and padding.
     *
     * @throws IllegalArgumentException The vocabulary has no end token, or `length` is
     * 0.
     */
    fun source(ids: List<Int>, length: Int): Row {
        require(end != null && length >= 1) {
            "the vocabulary ends no text, or the row has no room"
        }
        val kept = ids.take(length - 1) + end
        return padded(kept, kept.size, length, ids.size > length - 1)
    }

    /**
     * Returns a decoder prompt without padding: the last `most` ids.
     *
     * A prompt needs at least one id: if the vocabulary has no begin token of its own,
     * an empty text becomes the end token.
     */
    fun prompt(ids: List<Int>, most: Int): List<Int> {
        var begun = ids
        if (begin != null && begin != end) {
            begun = listOf(begin) + ids
        } else if (ids.isEmpty() && end != null) {
            begun = listOf(end)
        }
        return begun.takeLast(most)
    }

    /**
     * Decodes ids; padding, begin and end tokens are skipped.
     *
     * @throws IllegalArgumentException An id is outside the vocabulary.
     */
    fun decode(ids: List<Int>): String {
        for (piece in ids) {
            require(piece in pieces.indices) { "$piece is outside the vocabulary" }
        }
        val silent = listOf(pad, begin, end)
        return engine.decode(ids.filter { it !in silent })
    }

    /**
     * Returns the differences from the golden ids; empty if there are none.
     *
     * @param json The content of `golden_ids.json`.
     */
    fun disagreements(json: String): List<String> {
        val golden = JSONObject(json)
        val length = golden.getInt("length")
        val most = golden.getInt("prompt")
        val found = mutableListOf<String>()
        for (case in golden.getJSONArray("cases").objects()) {
            for ((name, value) in answers(case, length, most)) {
                val expected = case.get(name).let { if (it is JSONArray) it.ints() else it }
                if (value != expected) {
                    val text = JSONObject.quote(case.getString("text"))
                    found += "$text: $name is $value, expected $expected"
                }
            }
        }
        return found
    }

    /** Returns the values to compare with a golden case, by the same names. */
    private fun answers(case: JSONObject, length: Int, most: Int): Map<String, Any> {
        val text = case.getString("text")
        val ids = if (case.getBoolean("masks")) encodeWithMasks(text) else encode(text)
        val answers = mutableMapOf<String, Any>(
            "ids" to ids,
            "decoded" to decode(ids),
            "prompt_ids" to prompt(ids, most),
        )
        if (case.has("token_ids")) {
            val row = if (case.isNull("second_text")) {
                frame(ids, length)
            } else {
                framePair(ids, encode(case.getString("second_text")), length)
            }
            answers["token_ids"] = row.tokenIds
            answers["padding_mask"] = row.paddingMask
            answers["segment_ids"] = row.segmentIds
            answers["truncated"] = row.truncated
        }
        return answers
    }

    /** Returns the special tokens before, between and after one text or two. */
    private fun frameOf(length: Int, texts: Int): Frame {
        require(frame != null) { "the vocabulary has no pieces to frame a text with" }
        val between = if (texts == 2) frame.between else emptyList()
        val pieces = maxOf(frame.before.size + between.size + frame.after.size, 1)
        require(length >= pieces) {
            "a row of $length has no room for a frame of $pieces"
        }
        return frame.copy(between = between)
    }

    private fun padded(kept: List<Int>, ofFirst: Int, length: Int, cut: Boolean): Row {
        val padding = length - kept.size
        return Row(
            kept + List(padding) { pad },
            List(length) { if (it < kept.size) 1 else 0 },
            List(length) { if (it in ofFirst until kept.size) 1 else 0 },
            cut,
        )
    }
}

/** The special tokens of a row by their places. */
private data class Frame(
    val before: List<Int>,
    val between: List<Int>,
    val after: List<Int>,
    val alone: List<Int>,
)

/** Returns an encoder's by default; null if there are no tokens to frame a text with. */
private fun frameFrom(data: JSONObject, begin: Int?, end: Int?): Frame? {
    val given = data.optJSONObject("frame")
    if (given == null) {
        if (begin == null || end == null) return null
        return Frame(listOf(begin), listOf(end), listOf(end), emptyList())
    }
    val at = { place: String -> listOfNotNull(given.intOrNull(place)) }
    return Frame(at("before"), at("between"), at("after"), at("alone"))
}

private interface Engine {
    fun encode(text: String): List<Int>

    fun decode(ids: List<Int>): String
}

/** WordPiece: splits words, and each word into its longest pieces from the left. */
private class WordPiece(data: JSONObject) : Engine {
    private val pieces = data.strings("pieces")
    private val ids = pieces.withIndex().associate { (i, piece) -> piece to i }
    private val unknown = data.getJSONObject("special").getInt("unknown")
    private val prefix = data.getString("continuation")
    private val longest = data.getInt("longest_word")
    private val table = data.getJSONObject("characters")
    private val spaces = CodePoints(table.ints("spaces"))
    private val deleted = CodePoints(table.ints("deleted"))
    private val lonely = CodePoints(table.ints("words"))
    private val punctuation = CodePoints(table.ints("punctuation"))
    private val hidden = CodePoints(table.ints("hidden"))
    private val hasHangul = table.getBoolean("decompose_hangul")
    private val becomes = HashMap<Int, List<Int>>()
    private val order = HashMap<Int, Int>()

    init {
        for ((first, last, step, shift) in table.ints("shifts").chunked(4)) {
            for (c in first..last step step) becomes[c] = listOf(c + shift)
        }
        for (change in table.getJSONArray("replaced").arrays()) {
            val (c, others) = change.ints().let { it.first() to it.drop(1) }
            becomes[c] = others
        }
        for ((first, last, place) in table.ints("order").chunked(3)) {
            for (c in first..last) order[c] = place
        }
    }

    override fun encode(text: String): List<Int> = words(text).flatMap { lookUp(it) }

    override fun decode(ids: List<Int>): String =
        ids.joinToString(" ") { pieces[it] }.replace(" $prefix", "")

    private fun words(text: String): List<List<Int>> {
        val words = mutableListOf<List<Int>>()
        val word = mutableListOf<Int>()

        fun close() {
            words += atPunctuation(inOrder(word))
            word.clear()
        }

        for (c in codePoints(text)) {
            if (c in spaces) {
                close()
            } else if (c in deleted) {
                continue
            } else if (c in lonely) {
                close()
                word += folded(c)
                close()
            } else {
                word += folded(c)
            }
        }
        close()
        return words
    }

    /** Normalizes a character as the vocabulary needs it, such as to lowercase. */
    private fun folded(c: Int): List<Int> {
        if (hasHangul && c in 0xAC00 until 0xAC00 + 11172) {
            // The code point of a syllable encodes its two or three letters.
            val number = c - 0xAC00
            val third = number % 28
            val letters = listOf(0x1100 + number / 588, 0x1161 + number % 588 / 28)
            return if (third > 0) letters + (0x11A7 + third) else letters
        }
        return becomes[c] ?: listOf(c)
    }

    /** Sorts combining marks by canonical combining class; removes hidden ones. */
    private fun inOrder(word: List<Int>): List<Int> {
        val ordered = mutableListOf<Int>()
        var start = 0
        while (start < word.size) {
            var end = start
            while (end < word.size && word[end] in order) end += 1
            ordered += word.subList(start, end).sortedBy { order.getValue(it) }
            if (end < word.size) ordered += word[end]
            start = end + 1
        }
        return ordered.filter { it !in hidden }
    }

    /** Splits a word at punctuation: each such character is a word of its own. */
    private fun atPunctuation(word: List<Int>): List<List<Int>> {
        val parts = mutableListOf(mutableListOf<Int>())
        for (c in word) {
            if (c in punctuation) {
                parts += mutableListOf(c)
                parts += mutableListOf<Int>()
            } else {
                parts.last() += c
            }
        }
        return parts.filter { it.isNotEmpty() }
    }

    private fun lookUp(word: List<Int>): List<Int> {
        if (word.size > longest) return listOf(unknown)
        val characters = word.toIntArray()
        val found = mutableListOf<Int>()
        var start = 0
        while (start < word.size) {
            val before = if (start > 0) prefix else ""
            var end = word.size
            var id: Int? = null
            while (end > start) {
                id = ids[before + String(characters, start, end - start)]
                if (id != null) break
                end -= 1
            }
            if (id == null) return listOf(unknown)
            found += id
            start = end
        }
        return found
    }
}

/** Byte-level BPE: splits words as GPT-2 does, and merges pairs of their bytes. */
private class ByteBPE(data: JSONObject) : Engine {
    private enum class Kind { SYMBOL, LETTER, NUMBER, WHITE }

    private val endings = listOf("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
        .map { codePoints(it) }
    private val pieces = data.strings("pieces")
    private val ids = pieces.withIndex().associate { (i, piece) -> piece to i }
    private val alphabet = data.getString("alphabet")
    private val byteOf = alphabet.withIndex().associate { (i, letter) -> letter to i }
    private val names = data.ints("names").toSet()
    private val addsSpace = data.getBoolean("add_prefix_space")

    // A space separates the two parts of a pair: the alphabet does not contain it.
    private val ranks = data.strings("merges").withIndex()
        .associate { (rank, pair) -> pair to rank.toDouble() }
    private val table = data.getJSONObject("characters")
    private val letters = CodePoints(table.ints("letters"))
    private val numbers = CodePoints(table.ints("numbers"))
    private val white = CodePoints(table.ints("white"))

    override fun encode(text: String): List<Int> {
        val isBare = addsSpace && text.isNotEmpty() && !text.startsWith(" ")
        val found = mutableListOf<Int>()
        for (word in words(codePoints(if (isBare) " $text" else text))) {
            val letters = bytes(word).map { alphabet[it.code].toString() }
            val joined = joined(letters, letters.map { false }) { left, right ->
                ranks["$left $right"]
            }
            joined.mapTo(found) { ids.getValue(it) }
        }
        return found
    }

    override fun decode(ids: List<Int>): String {
        val content = StringBuilder()
        for (i in ids) {
            if (i in names) {
                content.append(bytes(pieces[i]))
            } else {
                for (letter in pieces[i]) content.append(byteOf.getValue(letter).toChar())
            }
        }
        return readText(content.toString(), eachByte = false)
    }

    private fun words(text: IntArray): List<String> {
        val kinds = text.map { kind(it) }
        val words = mutableListOf<String>()
        var start = 0
        while (start < text.size) {
            val end = end(text, kinds, start)
            words += String(text, start, end - start)
            start = end
        }
        return words
    }

    private fun kind(c: Int): Kind = when (c) {
        in letters -> Kind.LETTER
        in numbers -> Kind.NUMBER
        in white -> Kind.WHITE
        else -> Kind.SYMBOL
    }

    /** Returns the end of the word that begins at `start`. */
    private fun end(text: IntArray, kinds: List<Kind>, start: Int): Int {
        for (ending in endings) {
            val behind = start + ending.size
            if (behind <= text.size && ending.indices.all { text[start + it] == ending[it] }) {
                return behind
            }
        }
        // A space belongs to the word after it.
        val isSpace = text[start] == ' '.code && start + 1 < text.size
        var begin = if (isSpace) start + 1 else start
        if (kinds[begin] == Kind.WHITE) begin = start
        var end = begin
        while (end < text.size && kinds[end] == kinds[begin]) end += 1
        if (kinds[begin] == Kind.WHITE && end < text.size && end - start > 1) {
            end -= 1 // the last one belongs to the next word, or is a word of its own
        }
        return end
    }
}

/**
 * SentencePiece: the most probable pieces (`unigram`), or merged pairs (`bpe`).
 *
 * Works on the bytes of UTF-8, as the library does; see `bytes`.
 */
private class SentencePiece(data: JSONObject) : Engine {
    private val pieces = data.strings("pieces")
    private val isUnigram = data.getString("kind") == "unigram"
    private val unknown = data.getJSONObject("special").getInt("unknown")
    private val unknownScore = data.getString("unknown_score").toDouble()
    private val unknownText = data.getString("unknown_text")
    private val scores = data.strings("scores").map { it.toDouble() }.toDoubleArray()
    private val byteIds = data.ints("byte_ids")
    private val byteOf = byteIds.withIndex().associate { (byte, i) -> i to byte }
    private val alone = data.ints("alone").toSet()
    private val unused = data.ints("unused").toSet()
    private val ofText = data.ints("of_text").associateBy { bytes(pieces[it]) }
    private val named = data.ints("named").associateBy { bytes(pieces[it]) }
    private val longest = ofText.keys.maxOfOrNull { it.length } ?: 0
    private val own = data.ints("user_defined").map { bytes(pieces[it]) }
    private val normalizer = Normalizer(data.getJSONObject("normalizer"), own)

    override fun encode(text: String): List<Int> {
        val normal = normalizer.normalize(bytes(text))
        val ids = mutableListOf<Int>()
        var wasUnknown = false
        for ((piece, i) in if (isUnigram) likeliest(normal) else merged(normal)) {
            val isUnknown = i == unknown
            if (isUnknown && byteIds.isNotEmpty()) {
                piece.mapTo(ids) { byteIds[it.code] }
            } else if (!(isUnknown && wasUnknown)) { // adjacent unknowns are merged
                ids += i
            }
            wasUnknown = isUnknown
        }
        return ids
    }

    override fun decode(ids: List<Int>): String {
        val text = StringBuilder()
        val between = mutableListOf<Int>()

        fun add(word: String) {
            if (text.isNotEmpty()) text.append(" ")
            text.append(word)
        }

        for (i in ids) {
            if (i !in alone) {
                between += i
                continue
            }
            // A special token is a word of its own.
            if (between.isNotEmpty()) add(text(between))
            add(pieces[i])
            between.clear()
        }
        if (between.isNotEmpty()) add(text(between))
        return text.toString()
    }

    /** Finds the best pieces by Viterbi's algorithm, in the library's precision. */
    private fun likeliest(text: String): List<Pair<String, Int>> {
        val size = text.length
        val best = FloatArray(size + 1) // score of the best pieces up to each position
        val begins = IntArray(size + 1) { -1 }
        val ids = IntArray(size + 1) { unknown }

        fun offer(start: Int, end: Int, score: Double, i: Int) {
            val sum = score + best[start]
            if (begins[end] < 0 || sum > best[end]) {
                best[end] = sum.toFloat()
                begins[end] = start
                ids[end] = i
            }
        }

        var start = 0
        while (start < size) {
            val behind = start + character(text, start).first
            var isCovered = false
            for (end in start + 1..minOf(start + longest, size)) {
                val i = ofText[text.substring(start, end)]
                if (i != null && i !in unused) {
                    offer(start, end, scores[i], i)
                    isCovered = isCovered || end == behind
                }
            }
            if (!isCovered) offer(start, behind, unknownScore, unknown)
            start = behind
        }
        val found = mutableListOf<Pair<String, Int>>()
        var end = size
        while (end > 0) {
            found += Pair(text.substring(begins[end], end), ids[end])
            end = begins[end]
        }
        return found.reversed()
    }

    private fun merged(text: String): List<Pair<String, Int>> {
        val symbols = mutableListOf<String>()
        val fixed = mutableListOf<Boolean>()
        var start = 0
        while (start < text.length) {
            val size = longestOf(own, text, start)
            fixed += size > 0
            val end = start + if (size > 0) size else character(text, start).first
            symbols += text.substring(start, end)
            start = end
        }
        val halves = HashMap<String, Pair<String, String>>() // parts of unused pieces

        fun rank(left: String, right: String): Double? {
            val i = ofText[left + right] ?: return null
            if (i in unused) halves[left + right] = Pair(left, right)
            return -scores[i]
        }

        fun withIds(piece: String): List<Pair<String, Int>> {
            val i = named[piece] ?: ofText[piece] ?: unknown
            val parts = if (i in unused) halves[piece] else null
            if (parts != null) return withIds(parts.first) + withIds(parts.second)
            return listOf(Pair(piece, i))
        }

        return joined(symbols, fixed, ::rank).flatMap { withIds(it) }
    }

    /** Decodes pieces; drops the space that was added before the text. */
    private fun text(ids: List<Int>): String {
        val text = StringBuilder()
        val content = StringBuilder()
        var isStart = true
        var dropped = false
        for (i in ids + (-1)) {
            val byte = byteOf[i]
            if (byte != null) {
                content.append(byte.toChar())
                continue
            }
            text.append(readText(content.toString(), eachByte = true))
            content.clear()
            isStart = isStart && !(dropped || text.isNotEmpty())
            if (i >= 0) {
                var piece = pieces[i]
                dropped = false
                if (i == unknown) {
                    piece = unknownText
                } else if (isStart && normalizer.dropsSpace) {
                    dropped = piece.startsWith(SPACE) && !normalizer.strips
                    piece = piece.removePrefix(SPACE)
                }
                text.append(piece.replace(SPACE, " "))
            }
        }
        return text.toString()
    }
}

/**
 * SentencePiece's normalization: at each position the longest match applies.
 *
 * The rules are in the library's trie, an array of 32-bit numbers, whose leaves are
 * offsets into the list of replacement texts.
 */
private class Normalizer(rules: JSONObject, private val own: List<String>) {
    private val texts = fromBase64(rules.getString("texts"))
    private val adds = rules.getBoolean("add_space")
    private val atEnd = rules.getBoolean("space_at_end")
    private val space = if (rules.getBoolean("escape_spaces")) bytes(SPACE) else " "
    private val trie = fromBase64(rules.getString("trie")).let { content ->
        IntArray(content.length / 4) { i ->
            (3 downTo 0).fold(0) { unit, k -> unit shl 8 or content[4 * i + k].code }
        }
    }
    val strips = rules.getBoolean("remove_extra_spaces")
    val dropsSpace = adds || strips

    fun normalize(text: String): String {
        var place = 0
        while (strips && place < text.length) {
            val (new, size) = rule(text, place)
            if (new != " ") break
            place += size
        }
        if (place == text.length) return ""
        val out = StringBuilder(if (adds && !atEnd) space else "")
        var afterSpace = strips
        while (place < text.length) {
            val (whole, size) = rule(text, place)
            place += size
            val new = if (afterSpace) whole.trimStart(' ') else whole
            out.append(new.replace(" ", space))
            if (new.isNotEmpty()) afterSpace = strips && new.endsWith(" ")
        }
        while (strips && out.endsWith(space)) out.setLength(out.length - space.length)
        if (adds && atEnd) out.append(space)
        return out.toString()
    }

    /** Returns the replacement of the next bytes, and their number. */
    private fun rule(text: String, place: Int): Pair<String, Int> {
        val named = longestOf(own, text, place)
        if (named > 0) return Pair(text.substring(place, place + named), named)
        var found = 0
        var size = 0
        var node = if (trie.isEmpty()) 0 else offset(trie[0])
        for (end in place until if (trie.isEmpty()) place else text.length) {
            node = node xor text[end].code
            val unit = trie[node]
            if (unit and 0x800000FF.toInt() != text[end].code) break
            node = node xor offset(unit)
            if (unit ushr 8 and 1 == 1) {
                found = trie[node] and 0x7FFFFFFF
                size = end + 1 - place
            }
        }
        if (size > 0) return Pair(texts.substring(found, texts.indexOf('\u0000', found)), size)
        size = character(text, place).first
        return Pair(text.substring(place, place + size), size)
    }
}

/** A set of code points as intervals: begins and ends in turn. */
private class CodePoints(edges: List<Int>) {
    private val edges = edges.toIntArray()

    operator fun contains(codePoint: Int): Boolean {
        var low = 0
        var high = edges.size
        while (low < high) {
            val middle = (low + high) / 2
            if (edges[middle] <= codePoint) low = middle + 1 else high = middle
        }
        return low % 2 == 1
    }
}

private fun check(data: JSONObject) {
    val found = Pair(data.opt("format"), data.opt("version"))
    if (found != Pair<Any?, Any?>(FORMAT, VERSION)) {
        throw BadDataException(
            "found the format $found, expected ${Pair(FORMAT, VERSION)}. Take the file " +
                "that was exported with the model, and the tokenizer that came with it",
        )
    }
    val kinds = listOf("wordpiece", "byte_bpe", "unigram", "bpe")
    if (data.opt("kind") !in kinds) {
        throw BadDataException("found the kind ${data.opt("kind")}, expected one of $kinds")
    }
}

private fun damaged(error: Exception) = BadDataException(
    "the tokenizer's data are damaged: $error. Take the file that was exported with the " +
        "model",
    error,
)

/** Lowercases ASCII letters only. */
private fun lower(c: Char): Char = if (c in 'A'..'Z') c + 32 else c

/** Replaces lone surrogates by U+FFFD. */
private fun whole(text: String): String {
    val characters = codePoints(text)
    return String(characters, 0, characters.size)
}

private fun codePoints(text: String): IntArray {
    val found = IntArray(text.length)
    var count = 0
    var place = 0
    while (place < text.length) {
        val c = text.codePointAt(place)
        found[count++] = if (c in 0xD800..0xDFFF) REPLACEMENT[0].code else c
        place += Character.charCount(c)
    }
    return found.copyOf(count)
}

/**
 * Merges adjacent pieces, lowest rank first, leftmost first among equal ranks.
 *
 * @param pieces The initial pieces of a word.
 * @param fixed Whether each of them must not be merged.
 * @param rank The rank of a pair; null if it cannot be merged.
 */
private fun joined(
    pieces: List<String>,
    fixed: List<Boolean>,
    rank: (String, String) -> Double?,
): List<String> {
    class Offer(val rank: Double, val left: Int, val right: Int, val size: Int)

    val symbols = pieces.toMutableList()
    val before = IntArray(symbols.size) { it - 1 }
    val behind = IntArray(symbols.size) { it + 1 }
    val waiting = PriorityQueue<Offer>(
        maxOf(symbols.size, 1),
        compareBy({ it.rank }, { it.left }),
    )

    fun offer(left: Int, right: Int) {
        if (left < 0 || right >= symbols.size || fixed[left] || fixed[right]) return
        val found = rank(symbols[left], symbols[right]) ?: return
        waiting += Offer(found, left, right, symbols[left].length + symbols[right].length)
    }

    for (right in 1 until symbols.size) offer(right - 1, right)
    while (waiting.isNotEmpty()) {
        val next = waiting.remove()
        val (left, right) = Pair(next.left, next.right)
        if (symbols[left].isEmpty() || symbols[right].isEmpty()) {
            continue // outdated: one of them was merged into another piece
        }
        if (symbols[left].length + symbols[right].length != next.size) {
            continue // outdated: one of them has grown
        }
        symbols[left] += symbols[right]
        symbols[right] = ""
        behind[left] = behind[right]
        if (behind[left] < symbols.size) before[behind[left]] = left
        offer(before[left], left)
        offer(left, behind[left])
    }
    return symbols.filter { it.isNotEmpty() }
}

/** Returns the length of the longest given text that comes next; 0 if none does. */
private fun longestOf(own: List<String>, text: String, place: Int): Int =
    own.filter { text.startsWith(it, place) }.maxOfOrNull { it.length } ?: 0

/** Returns the offset from a node to its children. */
private fun offset(unit: Int): Int = unit ushr 10 shl (unit and 0x200 ushr 6)

/**
 * Returns the length of the next character in bytes, and whether it is valid.
 *
 * If it is invalid, the length is that of its longest valid prefix, at least 1.
 */
private fun character(content: String, place: Int): Pair<Int, Boolean> {
    val lead = content[place].code
    if (lead < 0x80) return Pair(1, true)
    if (lead !in 0xC2..0xF4) return Pair(1, false)
    val size = if (lead < 0xE0) 2 else if (lead < 0xF0) 3 else 4
    // Excludes overlong forms, surrogates and values above U+10FFFF.
    var low = when (lead) { 0xE0 -> 0xA0; 0xF0 -> 0x90; else -> 0x80 }
    var high = when (lead) { 0xED -> 0x9F; 0xF4 -> 0x8F; else -> 0xBF }
    for (i in 1 until size) {
        if (place + i >= content.length || content[place + i].code !in low..high) {
            return Pair(i, false)
        }
        low = 0x80
        high = 0xBF
    }
    return Pair(size, true)
}

/** Decodes bytes; an invalid sequence, or each of its bytes, becomes U+FFFD. */
private fun readText(content: String, eachByte: Boolean): String {
    val text = StringBuilder()
    var place = 0
    while (place < content.length) {
        val (size, isOne) = character(content, place)
        val found = content.substring(place, place + size)
        text.append(
            if (isOne) String(found.toByteArray(Charsets.ISO_8859_1)) else REPLACEMENT,
        )
        place += if (eachByte && !isOne) 1 else size
    }
    return text.toString()
}

/** The bytes of UTF-8 as a string, one character with the value of each byte. */
private fun bytes(text: String): String = String(text.toByteArray(), Charsets.ISO_8859_1)

/** Bytes, written as in `bytes`; phones before Android 8 have no decoder in `java.util`. */
private fun fromBase64(text: String): String {
    val digits = (('A'..'Z') + ('a'..'z') + ('0'..'9') + listOf('+', '/')).withIndex()
        .associate { (i, digit) -> digit to i }
    val content = StringBuilder()
    var bits = 0
    var count = 0
    for (digit in text.trimEnd('=')) {
        bits = (bits shl 6 or digits.getValue(digit)) and 0xFFFF
        count += 6
        if (count >= 8) {
            count -= 8
            content.append((bits shr count and 0xFF).toChar())
        }
    }
    return content.toString()
}

private fun JSONObject.ints(name: String) = getJSONArray(name).ints()

private fun JSONArray.ints() = List(length()) { getInt(it) }

private fun JSONArray.arrays() = List(length()) { getJSONArray(it) }

private fun JSONArray.objects() = List(length()) { getJSONObject(it) }

private fun JSONObject.strings(name: String) =
    getJSONArray(name).let { names -> List(names.length()) { names.getString(it) } }

private fun JSONObject.intOrNull(name: String) = if (isNull(name)) null else getInt(name)
