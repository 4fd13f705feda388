import Foundation

// Answers the questions of each folder: what the tokenizer of Tokenizer.swift makes of
// them. `kotlin/Main.kt` has the same parts.

func answer(_ folder: URL) throws {
    let data = try Data(contentsOf: folder.appendingPathComponent("phone_tokenizer.json"))
    let asked = try Data(contentsOf: folder.appendingPathComponent("questions.json"))
    let questions = try JSONSerialization.jsonObject(with: asked) as! [String: Any]
    var found: [String: Any] = [:]
    do {
        let tokenizer = try Tokenizer(json: data)
        found["texts"] = try answers(tokenizer, questions)
        found["long"] = long(tokenizer, questions)
        let golden = folder.appendingPathComponent("golden_ids.json")
        if let content = try? Data(contentsOf: golden) {
            found["disagreements"] = try tokenizer.disagreements(json: content)
        }
    } catch TokenizerError.badData(let reason) {
        found = ["refused": reason]
    }
    let written = try JSONSerialization.data(withJSONObject: found)
    try written.write(to: folder.appendingPathComponent("answers.json"))
}

func answers(_ tokenizer: Tokenizer, _ questions: [String: Any]) throws -> [Any] {
    let length = questions["length"] as! Int
    var before: [Int] = []
    var found: [Any] = []
    for text in questions["texts"] as! [String] {
        let ids = try tokenizer.encode(text)
        found.append([
            "ids": ids,
            "masks": refusing { try tokenizer.encodeWithMasks(text) },
            "frame": refusing {
                listed(tokenizer, try tokenizer.frame(ids, length: length))
            },
            "pair": refusing {
                listed(tokenizer, try tokenizer.framePair(before, ids, length: length))
            },
            "source": refusing {
                listed(tokenizer, try tokenizer.source(ids, length: length))
            },
            "prompt": tokenizer.prompt(ids, most: length),
            "decoded": try tokenizer.decode(ids),
        ] as [String: Any])
        before = ids
    }
    return found
}

/// Whether a text of so many bytes is refused, and one of a byte more.
func long(_ tokenizer: Tokenizer, _ questions: [String: Any]) -> [String: Any] {
    let longest = String(repeating: "é", count: (questions["longest"] as! Int) / 2)
    var found: [String: Any] = [:]
    for (name, text) in [("longest", longest), ("longer", longest + "a")] {
        found[name] = refusing { _ = try tokenizer.encode(text); return "read" }
        found["\(name) with masks"] = refusing {
            _ = try tokenizer.encodeWithMasks(text)
            return "read"
        }
    }
    return found
}

func listed(_ tokenizer: Tokenizer, _ row: Row) -> [Any] {
    [
        row.tokenIds, row.paddingMask, row.segmentIds, row.truncated,
        tokenizer.maskedPositions(row, count: 3),
    ]
}

func refusing(_ answer: () throws -> Any) -> Any {
    (try? answer()) ?? "refused"
}

for folder in CommandLine.arguments.dropFirst() {
    try answer(URL(fileURLWithPath: folder))
}
