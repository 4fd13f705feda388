        let lines = try String(contentsOf: file("labels.txt"), encoding: .utf8)
        labels = lines.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { String($$0) }
