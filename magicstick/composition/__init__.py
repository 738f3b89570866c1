"""Which reconcilers there are, and what they read from: one list for the daemon, for plans and for `why`.

In two halves, since who only asks about the platform need not import what models are made of.
"""
