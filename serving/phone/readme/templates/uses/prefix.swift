        let source: [String: Data] = [:]  // of models with an encoder
        let ids = tokenizer.prompt(try tokenizer.encode(text), most: $slots)
        let size = [$size_list].first { $$0 >= ids.count }!
        let mask = data(ids.map { _ in 1 }, size)
        let inputs = ["tokens": data(ids, size), "padding_mask": mask]
        kept = try run("prefix_\(size)", inputs, [:])
