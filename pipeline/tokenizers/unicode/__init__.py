"""The Unicode classes of the Rust `tokenizers` library."""
