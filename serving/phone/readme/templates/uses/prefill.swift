        let source: [String: Data] = [:]  // of models with an encoder
        let ids = tokenizer.prompt(try tokenizer.encode($source), most: $slots)
        let read = ids.dropLast()
        var done = 0
        while done < read.count {  // in pieces of the sizes that the file has
            let left = read.count - done
            let size = [$size_list].filter { $$0 <= left }.max() ?? $smallest
            let piece = Array(read.dropFirst(done).prefix(size))
            let places = data(Array(done..<done + piece.count), size)
            let inputs = ["tokens": data(piece, size), "input_pos": places]
            kept = try run("prefill_\(size)", inputs, kept)
            done += piece.count
        }
