
    /// As the tokenizer does, but a gap such as <extra_id_0> is a piece of its own.
    private func encode(_ text: String) throws -> [Int] {
        var ids: [Int] = []
        var rest = Substring(try tokenizer.limited(text))
        var next = rest.startIndex  // where to look for a gap
        let gap = "<extra_id_[0-9]+>"
        while let found = rest[next...].range(of: gap, options: .regularExpression) {
            next = found.upperBound
            guard let id = tokenizer.pieces.firstIndex(of: String(rest[found])) else {
                continue
            }
            var before = rest[..<found.lowerBound]
            // Spaces before it belong to what it stands for.
            while before.last == " " { before.removeLast() }
            ids += try tokenizer.encode(String(before)) + [id]
            rest = rest[found.upperBound...]
        }
        return try ids + tokenizer.encode(String(rest))
    }
