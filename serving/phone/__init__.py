"""What runs on phones: exported files as an app uses them."""
