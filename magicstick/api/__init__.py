"""Our own kinds: their models, the schemas made from them, and the types their fields share."""
