import Foundation

// Encodes text to token ids and decodes ids on a phone, exactly as in training.
//
// One data file contains the vocabulary, the tokenization rules and the Unicode tables,
// because those of a phone depend on the version of its operating system. This file
// needs only Foundation. `tokenizer.py` and `Tokenizer.kt` have the same parts in the
// same order; whoever changes one changes all three.
//
//     let tokenizer = try Tokenizer(json: Data(contentsOf: url)) // phone_tokenizer.json
//     let row = try tokenizer.frame(tokenizer.encode("a text"), length: 128)
//     row.tokenIds, row.paddingMask, row.segmentIds // the model's inputs
//
// In a unit test of the application, `tokenizer.disagreements(json: golden)` has to be
// empty, where `golden` is the content of `golden_ids.json`.
//
// Swift compares strings by canonical equivalence: "é" in one code point equals "é" in
// two. A vocabulary has them as different pieces, so texts are looked up by their
// bytes.

private let format = "transbeam-phone-tokenizer"
private let version = 1
private let longest = 200_000  // bytes of a text in UTF-8; longer ones fail
private let space = bytes("\u{2581}")  // SentencePiece's symbol for a space
private let replacement = "\u{FFFD}"  // replaces invalid UTF-8

/// A text in UTF-8.
private typealias Bytes = [UInt8]

/// The errors of the tokenizer, with the reason.
public enum TokenizerError: Error, CustomStringConvertible {
    /// The data file cannot be used.
    case badData(String)
    /// The vocabulary lacks a special token, or a number is out of range.
    case badRequest(String)

    public var description: String {
        switch self {
        case .badData(let reason), .badRequest(let reason): return reason
        }
    }
}

/// The inputs of a model: each list has the requested length.
public struct Row: Equatable {
    /// The ids of the pieces, then padding.
    public let tokenIds: [Int]
    /// 1 for pieces, 0 for padding.
    public let paddingMask: [Int]
    /// 1 on the second text of a pair and the separator after it.
    public let segmentIds: [Int]
    /// Whether the text was cut to the length.
    public let truncated: Bool
}

/// A WordPiece, byte-level BPE or SentencePiece tokenizer.
public final class Tokenizer {
    /// The pieces in the order of their ids.
    public let pieces: [String]
    public let pad: Int
    public let unknown: Int?
    public let begin: Int?
    public let end: Int?
    /// The tokens that end a generated text, including `end`.
    public let ends: [Int]
    public let mask: Int?
    private let maskText: String
    private let wholePieces: [(id: Int, piece: [UnicodeScalar])]  // the longest first
    private let folded: Set<Int>
    private let frameTokens: Frame?  // nil if there are no tokens to frame a text with
    private let engine: Engine

    /// Takes the content of `phone_tokenizer.json`; throws `badData` if it is of another
    /// format, or a part is missing.
    public init(json: Data) throws {
        let content = try? JSONSerialization.jsonObject(with: json)
        let data = Fields(content as? [String: Any] ?? [:])
        let kind = try checked(data)
        let special: Fields = try data.fields("special")
        pieces = try data.get("pieces")
        pad = try special.get("pad")
        unknown = special.optional("unknown")
        begin = special.optional("begin")
        end = special.optional("end")
        let stop: [Int] = special.optional("stop") ?? []
        ends = [end].compactMap { $0 } + stop
        frameTokens = frameFrom(data, begin: begin, end: end)
        mask = special.optional("mask")
        maskText = try data.get("mask_text")
        let found: [Int] = data.optional("whole") ?? []
        let names = pieces
        wholePieces = found.map { ($0, Array(names[$0].unicodeScalars)) }
        folded = Set(data.optional("folded") ?? [Int]())
        switch kind {
        case "wordpiece": engine = try WordPiece(data)
        case "byte_bpe": engine = try ByteBPE(data)
        default: engine = try SentencePiece(data)
        }
    }

    /// Encodes a text without special tokens; their names in it are ordinary text.
    /// Throws `badRequest` if the text is too long.
    public func encode(_ text: String) throws -> [Int] {
        aroundWhole(Array(try limited(text).unicodeScalars))
    }

    /// Encodes a text; added tokens in it become one id each.
    private func aroundWhole(_ text: [UnicodeScalar]) -> [Int] {
        if wholePieces.isEmpty { return engine.encode(text) }
        var ids: [Int] = []
        var start = 0
        var place = 0
        while place < text.count {
            guard let (id, piece) = wholeAt(text, place) else {
                place += 1
                continue
            }
            ids += engine.encode(Array(text[start..<place]))
            ids.append(id)
            place += piece.count
            start = place
        }
        return ids + engine.encode(Array(text[start...]))
    }

    /// Returns the longest added token that begins at a position.
    private func wholeAt(
        _ text: [UnicodeScalar], _ place: Int
    ) -> (id: Int, piece: [UnicodeScalar])? {
        wholePieces.first { id, piece in
            let part = text[place...].prefix(piece.count)
            if part.elementsEqual(piece) { return true }
            return folded.contains(id) && part.map(lower) == piece.map(lower)
        }
    }

    /// Returns the text unchanged. Throws `badRequest` if it is too long.
    public func limited(_ text: String) throws -> String {
        let size = text.utf8.count
        if size > longest {
            throw TokenizerError.badRequest(
                "a text of \(size) bytes: expected \(longest) at most")
        }
        return text
    }

    /// Encodes like `encode`, but each `[MASK]` in the text becomes the mask token.
    /// Throws `badRequest` if the vocabulary has no mask token, or the text is too
    /// long.
    public func encodeWithMasks(_ text: String) throws -> [Int] {
        guard let mask = mask else {
            throw TokenizerError.badRequest(
                "the vocabulary has no piece that hides a token")
        }
        let scalars = Array(try limited(text).unicodeScalars)
        let parts = split(scalars, at: Array(maskText.unicodeScalars))
        var ids: [Int] = []
        for (number, part) in parts.enumerated() {
            let isLast = number == parts.count - 1
            var kept = part
            // Spaces before a mask belong to the masked word.
            while !isLast, kept.last == " " { kept.removeLast() }
            ids += aroundWhole(kept)
            if !isLast { ids.append(mask) }
        }
        return ids
    }

    /// Returns `count` positions of a row's mask tokens, padded with 0.
    public func maskedPositions(_ row: Row, count: Int) -> [Int] {
        let places = row.tokenIds.indices.filter { row.tokenIds[$0] == mask }
        return Array((places + Array(repeating: 0, count: count)).prefix(count))
    }

    /// Returns a text with its special tokens and padding.
    ///
    /// An encoder's text is `[CLS] text [SEP]`. A text that is too long is truncated.
    /// Throws `badRequest` if the vocabulary has no special tokens, or `length` is too
    /// small.
    public func frame(_ ids: [Int], length: Int) throws -> Row {
        let around = try frameOf(length, texts: 1)
        let room = length - around.before.count - around.after.count
        var kept: [Int] = around.before + ids.prefix(room) + around.after
        if kept.isEmpty { kept = around.alone }
        return padded(kept, ofFirst: kept.count, length: length, cut: ids.count > room)
    }

    /// Returns a pair of texts with its special tokens and padding.
    ///
    /// An encoder's pair is `[CLS] first [SEP] second [SEP]`. If it is too long it is
    /// truncated longest-first: at the end of its longer text until both are equally
    /// long, then at the ends of both in turn, the second text first. Throws `badRequest` if the vocabulary has no special tokens, or
    /// `length` is too small.
    public func framePair(_ first: [Int], _ second: [Int], length: Int) throws -> Row {
        let around = try frameOf(length, texts: 2)
        let tokens = around.before.count + around.between.count + around.after.count
        let room = length - tokens
        let ofFirst = min(first.count, max(room - second.count, (room + 1) / 2))
        let ofSecond = min(second.count, room - ofFirst)
        let head: [Int] = around.before + first.prefix(ofFirst) + around.between
        let kept: [Int] = head + second.prefix(ofSecond) + around.after
        let cut = first.count + second.count > room
        return padded(kept, ofFirst: head.count, length: length, cut: cut)
    }

    /// Returns an encoder's input for a seq2seq model: `text </s>` and padding. Throws
    /// `badRequest` if the vocabulary has no end token, or `length` is 0.
    public func source(_ ids: [Int], length: Int) throws -> Row {
        guard let end = end, length >= 1 else {
            throw TokenizerError.badRequest(
                "the vocabulary ends no text, or the row has no room")
        }
        let kept = ids.prefix(length - 1) + [end]
        return padded(
            Array(kept), ofFirst: kept.count, length: length, cut: ids.count > length - 1)
    }

    /// Returns a decoder prompt without padding: the last `most` ids.
    ///
    /// A prompt needs at least one id: if the vocabulary has no begin token of its own,
    /// an empty text becomes the end token.
    public func prompt(_ ids: [Int], most: Int) -> [Int] {
        var begun = ids
        if let begin = begin, begin != end {
            begun = [begin] + ids
        } else if ids.isEmpty, let end = end {
            begun = [end]
        }
        return Array(begun.suffix(most))
    }

    /// Decodes ids; padding, begin and end tokens are skipped. Throws `badRequest` if
    /// an id is outside the vocabulary.
    public func decode(_ ids: [Int]) throws -> String {
        for piece in ids where !pieces.indices.contains(piece) {
            throw TokenizerError.badRequest("\(piece) is outside the vocabulary")
        }
        let silent: [Int?] = [pad, begin, end]
        return engine.decode(ids.filter { !silent.contains($0) })
    }

    /// Returns the differences from the golden ids; empty if there are none. Takes the
    /// content of `golden_ids.json`; throws `badData` if a part is missing.
    public func disagreements(json: Data) throws -> [String] {
        let content = try? JSONSerialization.jsonObject(with: json)
        let golden = Fields(content as? [String: Any] ?? [:])
        let length: Int = try golden.get("length")
        let most: Int = try golden.get("prompt")
        let cases: [[String: Any]] = try golden.get("cases")
        var found: [String] = []
        for fields in cases {
            let answers = try self.answers(Fields(fields), length: length, most: most)
            for (name, value) in answers where !isEqual(value, fields[name]) {
                let expected = String(describing: fields[name] ?? "nothing")
                found.append("\(fields["text"] ?? ""): \(name) is \(value), not \(expected)")
            }
        }
        return found
    }

    /// Returns the values to compare with a golden case, by the same names.
    private func answers(_ fields: Fields, length: Int, most: Int) throws -> [String: Any] {
        let text: String = try fields.get("text")
        let masks: Bool = try fields.get("masks")
        let ids = try masks ? encodeWithMasks(text) : encode(text)
        var answers: [String: Any] = [
            "ids": ids, "decoded": try decode(ids), "prompt_ids": prompt(ids, most: most),
        ]
        if fields.values["token_ids"] != nil {
            let row: Row
            if let second: String = fields.optional("second_text") {
                row = try framePair(ids, encode(second), length: length)
            } else {
                row = try frame(ids, length: length)
            }
            answers["token_ids"] = row.tokenIds
            answers["padding_mask"] = row.paddingMask
            answers["segment_ids"] = row.segmentIds
            answers["truncated"] = row.truncated
        }
        return answers
    }

    /// Returns the special tokens before, between and after one text or two.
    private func frameOf(_ length: Int, texts: Int) throws -> Frame {
        guard var found = frameTokens else {
            throw TokenizerError.badRequest(
                "the vocabulary has no pieces to frame a text with")
        }
        if texts == 1 { found.between = [] }
        let count = found.before.count + found.between.count + found.after.count
        let pieces = max(count, 1)
        guard length >= pieces else {
            throw TokenizerError.badRequest(
                "a row of \(length) has no room for a frame of \(pieces)")
        }
        return found
    }

    private func padded(_ kept: [Int], ofFirst: Int, length: Int, cut: Bool) -> Row {
        let places = 0..<length
        return Row(
            tokenIds: kept + Array(repeating: pad, count: length - kept.count),
            paddingMask: places.map { $0 < kept.count ? 1 : 0 },
            segmentIds: places.map { $0 >= ofFirst && $0 < kept.count ? 1 : 0 },
            truncated: cut)
    }
}

/// The special tokens of a row by their places.
private struct Frame {
    var before: [Int]
    var between: [Int]
    var after: [Int]
    var alone: [Int]
}

/// Returns an encoder's by default; nil if there are no tokens to frame a text with.
private func frameFrom(_ data: Fields, begin: Int?, end: Int?) -> Frame? {
    if let given = try? data.fields("frame") {
        let at = { (place: String) -> [Int] in
            let id: Int? = given.optional(place)
            return id.map { [$0] } ?? []
        }
        return Frame(
            before: at("before"), between: at("between"), after: at("after"),
            alone: at("alone"))
    }
    guard let begin = begin, let end = end else { return nil }
    return Frame(before: [begin], between: [end], after: [end], alone: [])
}

private protocol Engine {
    func encode(_ text: [UnicodeScalar]) -> [Int]

    func decode(_ ids: [Int]) -> String
}

/// WordPiece: splits words, and each word into its longest pieces from the left.
private final class WordPiece: Engine {
    private let pieces: [String]
    private let ids: [Bytes: Int]
    private let unknown: Int
    private let prefix: String
    private let longest: Int
    private let spaces: CodePoints
    private let deleted: CodePoints
    private let lonely: CodePoints
    private let punctuation: CodePoints
    private let hidden: CodePoints
    private let hasHangul: Bool
    private var becomes: [Int: [Int]] = [:]
    private var order: [Int: Int] = [:]

    init(_ data: Fields) throws {
        pieces = try data.get("pieces")
        ids = numbered(pieces)
        unknown = try data.fields("special").get("unknown")
        prefix = try data.get("continuation")
        longest = try data.get("longest_word")
        let table = try data.fields("characters")
        spaces = CodePoints(try table.get("spaces"))
        deleted = CodePoints(try table.get("deleted"))
        lonely = CodePoints(try table.get("words"))
        punctuation = CodePoints(try table.get("punctuation"))
        hidden = CodePoints(try table.get("hidden"))
        hasHangul = try table.get("decompose_hangul")
        let shifts: [Int] = try table.get("shifts")
        for i in stride(from: 0, to: shifts.count, by: 4) {
            for c in stride(from: shifts[i], through: shifts[i + 1], by: shifts[i + 2]) {
                becomes[c] = [c + shifts[i + 3]]
            }
        }
        let replaced: [[Int]] = try table.get("replaced")
        for change in replaced {
            becomes[change[0]] = Array(change.dropFirst())
        }
        let places: [Int] = try table.get("order")
        for i in stride(from: 0, to: places.count, by: 3) {
            for c in places[i]...places[i + 1] { order[c] = places[i + 2] }
        }
    }

    func encode(_ text: [UnicodeScalar]) -> [Int] {
        words(text).flatMap { lookUp($0) }
    }

    func decode(_ ids: [Int]) -> String {
        let joined = ids.map { pieces[$0] }.joined(separator: " ")
        return textOf(replacing(bytes(joined), bytes(" " + prefix), by: []))
    }

    private func words(_ text: [UnicodeScalar]) -> [[Int]] {
        var words: [[Int]] = []
        var word: [Int] = []

        func close() {
            words += atPunctuation(inOrder(word))
            word = []
        }

        for scalar in text {
            let c = Int(scalar.value)
            if spaces.contains(c) {
                close()
            } else if deleted.contains(c) {
                continue
            } else if lonely.contains(c) {
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

    /// Normalizes a character as the vocabulary needs it, such as to lowercase.
    private func folded(_ c: Int) -> [Int] {
        if hasHangul, c >= 0xAC00, c < 0xAC00 + 11172 {
            // The code point of a syllable encodes its two or three letters.
            let number = c - 0xAC00
            let third = number % 28
            let letters = [0x1100 + number / 588, 0x1161 + number % 588 / 28]
            return third > 0 ? letters + [0x11A7 + third] : letters
        }
        return becomes[c] ?? [c]
    }

    /// Sorts combining marks by canonical combining class; removes hidden ones.
    private func inOrder(_ word: [Int]) -> [Int] {
        var ordered: [Int] = []
        var start = 0
        while start < word.count {
            var end = start
            while end < word.count, order[word[end]] != nil { end += 1 }
            // By class and original position: Swift's sort is not guaranteed to be
            // stable.
            let marks = word[start..<end].enumerated().sorted {
                (order[$0.element]!, $0.offset) < (order[$1.element]!, $1.offset)
            }
            ordered += marks.map { $0.element }
            if end < word.count { ordered.append(word[end]) }
            start = end + 1
        }
        return ordered.filter { !hidden.contains($0) }
    }

    /// Splits a word at punctuation: each such character is a word of its own.
    private func atPunctuation(_ word: [Int]) -> [[Int]] {
        var parts: [[Int]] = [[]]
        for c in word {
            if punctuation.contains(c) {
                parts += [[c], []]
            } else {
                parts[parts.count - 1].append(c)
            }
        }
        return parts.filter { !$0.isEmpty }
    }

    private func lookUp(_ word: [Int]) -> [Int] {
        if word.count > longest { return [unknown] }
        let characters = word.map { utf8($0) }
        var found: [Int] = []
        var start = 0
        while start < word.count {
            let before: Bytes = start > 0 ? bytes(prefix) : []
            var end = word.count
            var id: Int?
            while end > start {
                id = ids[before + characters[start..<end].joined()]
                if id != nil { break }
                end -= 1
            }
            guard let piece = id else { return [unknown] }
            found.append(piece)
            start = end
        }
        return found
    }
}

/// Byte-level BPE: splits words as GPT-2 does, and merges pairs of their bytes.
private final class ByteBPE: Engine {
    private enum Kind { case symbol, letter, number, white }

    private let endings = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]
        .map { Array($0.unicodeScalars) }
    private let pieces: [String]
    private let ids: [Bytes: Int]
    private let alphabet: [Bytes]
    private let byteOf: [UnicodeScalar: UInt8]
    private let names: Set<Int>
    private let addsSpace: Bool
    private let ranks: [Bytes: Int]
    private let letters: CodePoints
    private let numbers: CodePoints
    private let white: CodePoints

    init(_ data: Fields) throws {
        pieces = try data.get("pieces")
        ids = numbered(pieces)
        let written: String = try data.get("alphabet")
        alphabet = written.unicodeScalars.map { utf8(Int($0.value)) }
        var byteOf: [UnicodeScalar: UInt8] = [:]
        for (byte, letter) in written.unicodeScalars.enumerated() {
            byteOf[letter] = UInt8(byte)
        }
        self.byteOf = byteOf
        names = Set(try data.get("names") as [Int])
        addsSpace = try data.get("add_prefix_space")
        // A space separates the two parts of a pair: the alphabet does not contain it.
        ranks = numbered(try data.get("merges"))
        let table = try data.fields("characters")
        letters = CodePoints(try table.get("letters"))
        numbers = CodePoints(try table.get("numbers"))
        white = CodePoints(try table.get("white"))
    }

    func encode(_ text: [UnicodeScalar]) -> [Int] {
        let isBare = addsSpace && !text.isEmpty && text[0] != " "
        var found: [Int] = []
        for word in words(isBare ? [" "] + text : text) {
            let content = word.flatMap { utf8(Int($0.value)) }
            let letters = content.map { alphabet[Int($0)] }
            let fixed = Array(repeating: false, count: letters.count)
            let pieces = joined(letters, fixed) { left, right in
                self.ranks[left + bytes(" ") + right].map { Double($0) }
            }
            found += pieces.map { ids[$0]! }
        }
        return found
    }

    func decode(_ ids: [Int]) -> String {
        var content: Bytes = []
        for i in ids {
            if names.contains(i) {
                content += bytes(pieces[i])
            } else {
                content += pieces[i].unicodeScalars.map { byteOf[$0]! }
            }
        }
        return readText(content, eachByte: false)
    }

    private func words(_ text: [UnicodeScalar]) -> [[UnicodeScalar]] {
        let kinds = text.map { kind(Int($0.value)) }
        var words: [[UnicodeScalar]] = []
        var start = 0
        while start < text.count {
            let end = self.end(text, kinds, start)
            words.append(Array(text[start..<end]))
            start = end
        }
        return words
    }

    private func kind(_ c: Int) -> Kind {
        if letters.contains(c) { return .letter }
        if numbers.contains(c) { return .number }
        return white.contains(c) ? .white : .symbol
    }

    /// Returns the end of the word that begins at `start`.
    private func end(_ text: [UnicodeScalar], _ kinds: [Kind], _ start: Int) -> Int {
        for ending in endings where text[start...].starts(with: ending) {
            return start + ending.count
        }
        // A space belongs to the word after it.
        let isSpace = text[start] == " " && start + 1 < text.count
        var begin = isSpace ? start + 1 : start
        if kinds[begin] == .white { begin = start }
        var end = begin
        while end < text.count, kinds[end] == kinds[begin] { end += 1 }
        if kinds[begin] == .white, end < text.count, end - start > 1 {
            end -= 1  // the last one belongs to the next word, or is a word of its own
        }
        return end
    }
}

/// SentencePiece: the most probable pieces (`unigram`), or merged pairs (`bpe`).
///
/// Works on the bytes of UTF-8, as the library does.
private final class SentencePiece: Engine {
    private let pieces: [String]
    private let isUnigram: Bool
    private let unknown: Int
    private let unknownScore: Double
    private let unknownText: String
    private let scores: [Double]
    private let byteIds: [Int]
    private var byteOf: [Int: UInt8] = [:]
    private let alone: Set<Int>
    private let unused: Set<Int>
    private var ofText: [Bytes: Int] = [:]
    private var named: [Bytes: Int] = [:]
    private let longest: Int
    private let own: [Bytes]
    private let normalizer: Normalizer

    init(_ data: Fields) throws {
        let pieces: [String] = try data.get("pieces")
        self.pieces = pieces
        let kind: String = try data.get("kind")
        isUnigram = kind == "unigram"
        unknown = try data.fields("special").get("unknown")
        unknownScore = try number(data.get("unknown_score"))
        unknownText = try data.get("unknown_text")
        scores = try (data.get("scores") as [String]).map { try number($0) }
        byteIds = try data.get("byte_ids")
        for (byte, i) in byteIds.enumerated() { byteOf[i] = UInt8(byte) }
        alone = Set(try data.get("alone") as [Int])
        unused = Set(try data.get("unused") as [Int])
        for i in try data.get("of_text") as [Int] { ofText[bytes(pieces[i])] = i }
        for i in try data.get("named") as [Int] { named[bytes(pieces[i])] = i }
        longest = ofText.keys.map { $0.count }.max() ?? 0
        own = (try data.get("user_defined") as [Int]).map { bytes(pieces[$0]) }
        normalizer = try Normalizer(data.fields("normalizer"), own)
    }

    func encode(_ text: [UnicodeScalar]) -> [Int] {
        let normal = normalizer.normalize(text.flatMap { utf8(Int($0.value)) })
        let found = isUnigram ? likeliest(normal) : merged(normal)
        var ids: [Int] = []
        var wasUnknown = false
        for (piece, i) in found {
            let isUnknown = i == unknown
            if isUnknown, !byteIds.isEmpty {
                ids += piece.map { byteIds[Int($0)] }
            } else if !(isUnknown && wasUnknown) {  // adjacent unknowns are merged
                ids.append(i)
            }
            wasUnknown = isUnknown
        }
        return ids
    }

    func decode(_ ids: [Int]) -> String {
        var text = ""
        var between: [Int] = []

        func add(_ word: String) {
            text += text.isEmpty ? word : " " + word
        }

        for i in ids {
            if !alone.contains(i) {
                between.append(i)
                continue
            }
            // A special token is a word of its own.
            if !between.isEmpty { add(self.text(between)) }
            add(pieces[i])
            between = []
        }
        if !between.isEmpty { add(self.text(between)) }
        return text
    }

    /// Finds the best pieces by Viterbi's algorithm, in the library's precision.
    private func likeliest(_ text: Bytes) -> [(Bytes, Int)] {
        let size = text.count
        var best = [Float](repeating: 0, count: size + 1)  // up to each position
        var begins = [Int](repeating: -1, count: size + 1)
        var ids = [Int](repeating: unknown, count: size + 1)

        func offer(_ start: Int, _ end: Int, _ score: Double, _ i: Int) {
            let sum = score + Double(best[start])
            if begins[end] < 0 || sum > Double(best[end]) {
                best[end] = Float(sum)
                begins[end] = start
                ids[end] = i
            }
        }

        var start = 0
        while start < size {
            let behind = start + character(text, start).size
            var isCovered = false
            for end in stride(from: start + 1, through: min(start + longest, size), by: 1) {
                if let i = ofText[Array(text[start..<end])], !unused.contains(i) {
                    offer(start, end, scores[i], i)
                    isCovered = isCovered || end == behind
                }
            }
            if !isCovered { offer(start, behind, unknownScore, unknown) }
            start = behind
        }
        var found: [(Bytes, Int)] = []
        var end = size
        while end > 0 {
            found.append((Array(text[begins[end]..<end]), ids[end]))
            end = begins[end]
        }
        return found.reversed()
    }

    private func merged(_ text: Bytes) -> [(Bytes, Int)] {
        var symbols: [Bytes] = []
        var fixed: [Bool] = []
        var start = 0
        while start < text.count {
            let size = longestOf(own, text, start)
            fixed.append(size > 0)
            let end = start + (size > 0 ? size : character(text, start).size)
            symbols.append(Array(text[start..<end]))
            start = end
        }
        var halves: [Bytes: (Bytes, Bytes)] = [:]  // parts of unused pieces

        func rank(_ left: Bytes, _ right: Bytes) -> Double? {
            guard let i = ofText[left + right] else { return nil }
            if unused.contains(i) { halves[left + right] = (left, right) }
            return -scores[i]
        }

        func withIds(_ piece: Bytes) -> [(Bytes, Int)] {
            let i = named[piece] ?? ofText[piece] ?? unknown
            if unused.contains(i), let (left, right) = halves[piece] {
                return withIds(left) + withIds(right)
            }
            return [(piece, i)]
        }

        return joined(symbols, fixed, rank).flatMap { withIds($0) }
    }

    /// Decodes pieces; drops the space that was added before the text.
    private func text(_ ids: [Int]) -> String {
        var text = ""
        var content: Bytes = []
        var isStart = true
        var dropped = false
        for i in ids + [-1] {
            if let byte = byteOf[i] {
                content.append(byte)
                continue
            }
            text += readText(content, eachByte: true)
            content = []
            isStart = isStart && !(dropped || !text.isEmpty)
            if i >= 0 {
                var piece = bytes(pieces[i])
                dropped = false
                if i == unknown {
                    piece = bytes(unknownText)
                } else if isStart, normalizer.dropsSpace, piece.starts(with: space) {
                    dropped = !normalizer.strips
                    piece = Array(piece.dropFirst(space.count))
                }
                text += textOf(replacing(piece, space, by: bytes(" ")))
            }
        }
        return text
    }
}

/// SentencePiece's normalization: at each position the longest match applies.
///
/// The rules are in the library's trie, an array of 32-bit numbers, whose leaves are
/// offsets into the list of replacement texts.
private final class Normalizer {
    private let own: [Bytes]
    private let texts: Bytes
    private let adds: Bool
    private let atEnd: Bool
    private let spaceText: Bytes
    private var trie: [UInt32] = []
    let strips: Bool
    let dropsSpace: Bool

    init(_ rules: Fields, _ own: [Bytes]) throws {
        self.own = own
        texts = try rules.base64("texts")
        let adds: Bool = try rules.get("add_space")
        let strips: Bool = try rules.get("remove_extra_spaces")
        let escapes: Bool = try rules.get("escape_spaces")
        self.adds = adds
        self.strips = strips
        atEnd = try rules.get("space_at_end")
        spaceText = escapes ? space : bytes(" ")
        dropsSpace = adds || strips
        let content = try rules.base64("trie")
        for i in stride(from: 0, to: content.count / 4 * 4, by: 4) {
            let unit: UInt32 = content[i..<i + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) }
            trie.append(unit)
        }
    }

    func normalize(_ text: Bytes) -> Bytes {
        var place = 0
        while strips, place < text.count {
            let (new, size) = rule(text, place)
            if new != bytes(" ") { break }
            place += size
        }
        if place == text.count { return [] }
        var out = adds && !atEnd ? spaceText : []
        var afterSpace = strips
        while place < text.count {
            let (whole, size) = rule(text, place)
            place += size
            let new = afterSpace ? Array(whole.drop(while: { $0 == UInt8(ascii: " ") })) : whole
            out += replacing(new, bytes(" "), by: spaceText)
            if !new.isEmpty { afterSpace = strips && new.last == UInt8(ascii: " ") }
        }
        while strips, out.count >= spaceText.count,
            out.suffix(spaceText.count).elementsEqual(spaceText)
        {
            out.removeLast(spaceText.count)
        }
        if adds, atEnd { out += spaceText }
        return out
    }

    /// Returns the replacement of the next bytes, and their number.
    private func rule(_ text: Bytes, _ place: Int) -> (Bytes, Int) {
        let named = longestOf(own, text, place)
        if named > 0 { return (Array(text[place..<place + named]), named) }
        var found = 0
        var size = 0
        var node = trie.isEmpty ? 0 : offset(trie[0])
        for end in place..<(trie.isEmpty ? place : text.count) {
            node ^= UInt32(text[end])
            let unit = trie[Int(node)]
            if unit & 0x8000_00FF != UInt32(text[end]) { break }
            node ^= offset(unit)
            if unit >> 8 & 1 == 1 {
                found = Int(trie[Int(node)] & 0x7FFF_FFFF)
                size = end + 1 - place
            }
        }
        if size > 0 { return (Array(texts[found...].prefix(while: { $0 != 0 })), size) }
        size = character(text, place).size
        return (Array(text[place..<place + size]), size)
    }
}

/// A set of code points as intervals: begins and ends in turn.
private struct CodePoints {
    private let edges: [Int]

    init(_ edges: [Int]) {
        self.edges = edges
    }

    func contains(_ codePoint: Int) -> Bool {
        var low = 0
        var high = edges.count
        while low < high {
            let middle = (low + high) / 2
            if edges[middle] <= codePoint { low = middle + 1 } else { high = middle }
        }
        return low % 2 == 1
    }
}

/// Returns the values of a JSON object by name.
private struct Fields {
    let values: [String: Any]

    init(_ values: [String: Any]) {
        self.values = values
    }

    func get<Value>(_ name: String) throws -> Value {
        guard let value = values[name] as? Value else {
            throw TokenizerError.badData(
                "the tokenizer's data are damaged: \(name) is missing or no "
                    + "\(Value.self). Take the file that was exported with the model")
        }
        return value
    }

    func optional<Value>(_ name: String) -> Value? {
        values[name] as? Value
    }

    func fields(_ name: String) throws -> Fields {
        Fields(try get(name))
    }

    func base64(_ name: String) throws -> Bytes {
        guard let content = Data(base64Encoded: try get(name) as String) else {
            throw TokenizerError.badData(
                "the tokenizer's data are damaged: \(name) is no base64. Take the file "
                    + "that was exported with the model")
        }
        return Bytes(content)
    }
}

/// Checks the format of the data file and returns the tokenizer's kind.
private func checked(_ data: Fields) throws -> String {
    let found: (String?, Int?) = (data.optional("format"), data.optional("version"))
    guard found.0 == format, found.1 == version else {
        throw TokenizerError.badData(
            "found the format \(found), expected \((format, version)). Take the file that "
                + "was exported with the model, and the tokenizer that came with it")
    }
    let kinds = ["wordpiece", "byte_bpe", "unigram", "bpe"]
    let kind: String? = data.optional("kind")
    guard let one = kind, kinds.contains(one) else {
        throw TokenizerError.badData(
            "found the kind \(kind ?? "nothing"), expected one of \(kinds)")
    }
    return one
}

/// Lowercases ASCII letters only.
private func lower(_ scalar: UnicodeScalar) -> UnicodeScalar {
    guard ("A"..."Z").contains(scalar) else { return scalar }
    return UnicodeScalar(UInt8(scalar.value) + 32)
}

/// Merges adjacent pieces, lowest rank first, leftmost first among equal ranks.
///
/// - Parameters:
/// - pieces: The initial pieces of a word.
/// - fixed: Whether each of them must not be merged.
/// - rank: The rank of a pair; nil if it cannot be merged.
private func joined(
    _ pieces: [Bytes], _ fixed: [Bool], _ rank: @escaping (Bytes, Bytes) -> Double?
) -> [Bytes] {
    var symbols = pieces
    var before = symbols.indices.map { $0 - 1 }
    var behind = symbols.indices.map { $0 + 1 }
    var waiting = Heap()

    func offer(_ left: Int, _ right: Int) {
        if left < 0 || right >= symbols.count || fixed[left] || fixed[right] { return }
        guard let found = rank(symbols[left], symbols[right]) else { return }
        let size = symbols[left].count + symbols[right].count
        waiting.push(Offer(rank: found, left: left, right: right, size: size))
    }

    for right in symbols.indices.dropFirst() { offer(right - 1, right) }
    while let next = waiting.pop() {
        let (left, right) = (next.left, next.right)
        if symbols[left].isEmpty || symbols[right].isEmpty {
            continue  // outdated: one of them was merged into another piece
        }
        if symbols[left].count + symbols[right].count != next.size {
            continue  // outdated: one of them has grown
        }
        symbols[left] += symbols[right]
        symbols[right] = []
        behind[left] = behind[right]
        if behind[left] < symbols.count { before[behind[left]] = left }
        offer(before[left], left)
        offer(left, behind[left])
    }
    return symbols.filter { !$0.isEmpty }
}

private struct Offer {
    let rank: Double
    let left: Int
    let right: Int
    let size: Int

    func precedes(_ other: Offer) -> Bool {
        (rank, left) < (other.rank, other.left)
    }
}

/// A binary heap: each element precedes the two below it.
private struct Heap {
    private var offers: [Offer] = []

    mutating func push(_ offer: Offer) {
        offers.append(offer)
        var place = offers.count - 1
        while place > 0, offers[place].precedes(offers[(place - 1) / 2]) {
            offers.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    mutating func pop() -> Offer? {
        guard let first = offers.first, let last = offers.popLast() else { return nil }
        if offers.isEmpty { return first }
        offers[0] = last
        var place = 0
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < offers.count {
                if offers[child].precedes(offers[least]) { least = child }
            }
            if least == place { return first }
            offers.swapAt(place, least)
            place = least
        }
    }
}

/// Returns the length of the longest given text that comes next; 0 if none does.
private func longestOf(_ own: [Bytes], _ text: Bytes, _ place: Int) -> Int {
    own.filter { text[place...].starts(with: $0) }.map { $0.count }.max() ?? 0
}

/// Returns the offset from a node to its children.
private func offset(_ unit: UInt32) -> UInt32 {
    (unit >> 10) << ((unit & 0x200) >> 6)
}

/// Returns the length of the next character in bytes, and whether it is valid.
///
/// If it is invalid, the length is that of its longest valid prefix, at least 1.
private func character(_ content: Bytes, _ place: Int) -> (size: Int, isOne: Bool) {
    let lead = content[place]
    if lead < 0x80 { return (1, true) }
    if lead < 0xC2 || lead > 0xF4 { return (1, false) }
    let size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4
    // Excludes overlong forms, surrogates and values above U+10FFFF.
    var low: UInt8 = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80
    var high: UInt8 = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF
    for i in 1..<size {
        if place + i >= content.count { return (i, false) }
        if content[place + i] < low || content[place + i] > high { return (i, false) }
        low = 0x80
        high = 0xBF
    }
    return (size, true)
}

/// Decodes bytes; an invalid sequence, or each of its bytes, becomes U+FFFD.
private func readText(_ content: Bytes, eachByte: Bool) -> String {
    var text = ""
    var place = 0
    while place < content.count {
        let (size, isOne) = character(content, place)
        let found = Array(content[place..<place + size])
        text += isOne ? textOf(found) : replacement
        place += eachByte && !isOne ? 1 : size
    }
    return text
}

private func bytes(_ text: String) -> Bytes {
    Bytes(text.utf8)
}

private func textOf(_ content: Bytes) -> String {
    String(decoding: content, as: UTF8.self)
}

/// Returns the UTF-8 bytes of a code point that is not a surrogate.
private func utf8(_ codePoint: Int) -> Bytes {
    let scalar = UnicodeScalar(UInt32(codePoint)) ?? "\u{FFFD}"
    return Bytes(String(Character(scalar)).utf8)
}

/// Parses a number from a string: some JSON parsers round numbers.
private func number(_ text: String) throws -> Double {
    guard let number = Double(text) else {
        throw TokenizerError.badData(
            "the tokenizer's data are damaged: \(text) is no number. Take the file that "
                + "was exported with the model")
    }
    return number
}

private func numbered(_ texts: [String]) -> [Bytes: Int] {
    var numbers: [Bytes: Int] = [:]
    for (number, text) in texts.enumerated() { numbers[bytes(text)] = number }
    return numbers
}

private func replacing(_ content: Bytes, _ old: Bytes, by new: Bytes) -> Bytes {
    var out: Bytes = []
    var place = 0
    while place < content.count {
        let isOld = content[place...].starts(with: old)
        out += isOld ? new : [content[place]]
        place += isOld ? old.count : 1
    }
    return out
}

private func split(_ text: [UnicodeScalar], at mark: [UnicodeScalar]) -> [[UnicodeScalar]] {
    var parts: [[UnicodeScalar]] = [[]]
    var place = 0
    while place < text.count {
        if text[place...].starts(with: mark) {
            parts.append([])
            place += mark.count
        } else {
            parts[parts.count - 1].append(text[place])
            place += 1
        }
    }
    return parts
}

/// Compares an output with a golden case, code point by code point.
private func isEqual(_ value: Any, _ expected: Any?) -> Bool {
    switch value {
    case let ids as [Int]: return ids == expected as? [Int]
    case let text as String: return bytes(text) == (expected as? String).map(bytes)
    case let flag as Bool: return flag == expected as? Bool
    default: return false
    }
}
