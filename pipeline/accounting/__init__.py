"""Accounts of documents and bytes: used, filtered, quarantined or unread."""
