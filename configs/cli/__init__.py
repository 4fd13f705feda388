"""Arguments, console and progress bars that all commands share."""
