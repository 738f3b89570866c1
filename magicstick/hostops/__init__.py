"""Operations on the host: asked for by people, done by a worker on the node, only read here."""
