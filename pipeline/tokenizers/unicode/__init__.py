"""Unicode classes as the Rust `tokenizers` library has them."""
