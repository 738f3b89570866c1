"""Stands in for KubeAI (0.23.2): makes the Pods of Models, and plays their kubelet and their servers.

Under construction: `KubeAiActor(client)`; the values that it works with are in `kubeai_chart` (what the
chart installs, the definition of Models) and `kubeai_pods` (the Pod of a Model, what to create and delete).
"""
