"""The model catalog: ready models become LiteLLM routes, LiteLLM's models become the catalog of everybody.

A process of its own (`magicstick model-catalog`), with its own account; it shares the layers below with
the operator and no decision. One pass reads, decides and writes:

    sources ──→ desired_routes ──→ plan ──→ LiteLLM ──→ catalog_document ──→ ConfigMap ──→ consumers
    caches,       pure              pure    withdraw,      pure                PUT          AgentTemplates,
    Secrets                                 update, create                                  restarts

(spec: models §11 and §16, companions §1)
"""
