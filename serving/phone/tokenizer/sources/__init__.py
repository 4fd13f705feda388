"""The tokenizer for phones in Python, Kotlin and Swift: the same, thrice."""
