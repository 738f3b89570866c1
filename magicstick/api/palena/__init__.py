"""The five kinds of Palena: a governed AI gateway, and what stands around it (spec: palena §1, §4 to §8)."""
