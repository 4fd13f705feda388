"""Accounting of documents and bytes as used, filtered, quarantined or unread."""
