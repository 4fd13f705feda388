"""The tokenizer for phones in Python, Kotlin and Swift, with equal results."""
