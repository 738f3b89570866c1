"""The guarded way in to an instance: host names, routes, policies, grants (spec: modules-and-apps §9)."""
