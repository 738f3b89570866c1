"""The catalogs: which modules, applications, compute targets, presets and GPU profiles there are.

Each catalog is a ConfigMap with one JSON document (spec: magicstick-api §3). A module of this package
holds its typed model and `parse`, which keeps every good entry and says what is wrong with the others;
`loader` follows the ConfigMaps; `render` makes them from the sources in `catalogs/`.
"""
