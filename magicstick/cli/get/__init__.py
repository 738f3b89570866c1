"""`magicstick get`: everything of ours in a cluster, as tables or as data, once or as it changes.

    command ── words (what is asked for) ── reading ── items ── screen, documents
                                            watching ─┘   └ table, phases, age

Importing `command` costs no more than typer; what talks to the cluster is imported when it does.
"""
