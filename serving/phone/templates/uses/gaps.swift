
    /// As the tokenizer does, but a gap such as <extra_id_0> is a piece of its own.
    private func encode(_ text: String) -> [Int] {
        var ids: [Int] = []
        var rest = Substring(text)
        while let found = rest.range(of: " *<extra_id_[0-9]+>", options: .regularExpression) {
            let name = rest[found].drop { $$0 == " " }
            let gap = tokenizer.pieces.firstIndex(of: String(name))
            let end = gap == nil ? found.upperBound : found.lowerBound
            ids += tokenizer.encode(String(rest[..<end])) + [gap].compactMap { $$0 }
            rest = rest[found.upperBound...]
        }
        return ids + tokenizer.encode(String(rest))
    }
