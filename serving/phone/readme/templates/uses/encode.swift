        let row = try tokenizer.source($encode($source), length: $length)
        let mask = data(row.paddingMask, $length)
        let inputs = ["token_ids": data(row.tokenIds, $length), "padding_mask": mask]
        var source = try run("encode", inputs, [:])
        source["padding_mask"] = mask
        let ids = [tokenizer.begin ?? tokenizer.pad]
