"""The access guard: the gateway asks it before it lets a request through to an instance.

`asked` reads what the gateway asks and `policy` what an instance says, `decide` is the whole decision as a
pure function, `guard` finds out what the decision still needs, one need at a time, and `server` answers.
Whatever goes wrong on the way is a no. The guard writes nothing, anywhere (spec: companions §2).
"""
