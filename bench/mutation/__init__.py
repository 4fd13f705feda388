"""Mutation testing: one fault at a time in the product, put to the tests."""
