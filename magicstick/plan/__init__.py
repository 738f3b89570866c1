"""What the operator would write for resources that are not applied yet.

    documents → given ─┐
    files or cluster ──┴→ caches → the operator's own reconcilers → an answering machine → changes → text

The reconcilers, the skeleton around them, the applier and the caches are those of the daemon. Only the two
ends differ: what is read was read once (`sources`), and what is written is answered on the spot, as the API
server would answer it, and goes nowhere (`server`).
"""
