"""Access to source files: globs, remote file systems, compression, damage."""
