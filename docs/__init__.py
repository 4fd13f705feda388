"""The documents, and in `docs/site` the program that makes a site of them."""
