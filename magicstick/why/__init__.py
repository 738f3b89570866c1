"""Why something is not ready: the chain of causes, down to what a person can change.

The chain follows the edges that the reconcilers declare, and is made of their own observations and
decisions, none of which is carried out. `opening` reads the cluster, `explainers` hold one function a kind,
`walk` joins what they say, `text` writes it down.
"""
