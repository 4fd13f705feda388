"""Results of a run's stages, read for the studio's page Run.

The files may be of another version, half-written or damaged: each reader checks what
it takes from them, and an error concerns one panel of the page.
"""
