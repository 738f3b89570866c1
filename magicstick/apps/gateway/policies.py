"""Builder of the SecurityPolicy in front of an instance's routes. Values in, dicts out.

(spec: modules-and-apps §9.5, §9.6). Every policy asks the guard, about exactly this instance; with `sso` it
also has the shared sign-in and the least role. What the server would fill in is written out, so that a live
policy's spec has the very digest that we gave it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from magicstick.api import labels
from magicstick.api.app_instance import Role
from magicstick.apps.gateway.places import Side, callback_place, policy_place, route_place
from magicstick.apps.gateway.routes import Object, callback_host, callback_path, metadata
from magicstick.apps.kinds import HTTP_ROUTE
from magicstick.apps.ports import Access, Admitted, GatewaySite, Reference

ROLES: Final[tuple[Role, ...]] = ("user", "viewer", "operator", "admin")
"""From the least to the highest; a role includes those before it."""

ACCESS_TOKEN_COOKIE: Final = "MagicStickAccessToken"  # noqa: S105 - the name of a cookie
ID_TOKEN_COOKIE: Final = "MagicStickIDToken"  # noqa: S105 - the name of a cookie
_KEYCLOAK: Final = "keycloak"
_KEYCLOAK_PORT: Final = 8080
_REALM: Final = "/realms/magicstick"


def allowed_roles(least: Role) -> list[str]:
    """The realm's roles that satisfy a least role."""
    return [f"magicstick-{role}" for role in ROLES[ROLES.index(least) :]]


def admits_others(spec: Mapping[str, Any], admitted: Admitted) -> bool:
    """Whether a policy of ours lets anybody through whom an instance does not admit."""
    if admitted.authentication == "none":
        return False
    higher = ROLES[ROLES.index(admitted.role) :]
    signed_in = "oidc" in spec and "jwt" in spec
    return not signed_in or spec.get("authorization") not in [_least_role(each) for each in higher]


def digest(spec: Mapping[str, Any]) -> str:
    """SHA-256 of a policy's spec in canonical JSON, as hex."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def security_policy(access: Access, side: Side, site: GatewaySite) -> Object:
    """The policy of both routes of one host."""
    targets = [route_place(access.instance, side, site)]
    spec: Object = {"extAuth": _guard(access, site)}
    if access.authentication == "sso":
        targets.append(callback_place(access.instance, side, site))
        spec |= {
            "oidc": _sign_in(access, side, site),
            "jwt": {"providers": [_token_check(access, site)]},
            "authorization": _least_role(access.role),
        }
    spec["targetRefs"] = [_target(each) for each in targets]
    place = policy_place(access.instance, side, site)
    return {
        "apiVersion": place.kind.api_version,
        "kind": place.kind.kind,
        "metadata": metadata(place, access, **{labels.ACCESS_GUARD_SPEC: digest(spec)}),
        "spec": spec,
    }


def _target(route: Reference) -> Object:
    return {"group": HTTP_ROUTE.group, "kind": HTTP_ROUTE.kind, "name": route.key.name}


def _service(name: str, port: int) -> Object:
    return {"group": "", "kind": "Service", "name": name, "port": port, "weight": 1}


def _guard(access: Access, site: GatewaySite) -> Object:
    """The uid is in the path so that an instance made again under the name inherits no grant."""
    return {
        "failOpen": False,
        "headersToExtAuth": ["Cookie", "Authorization"],
        "http": {
            "backendRefs": [_service(site.guard_service, site.guard_port)],
            "path": f"/internal/instance-access/{access.instance}/{access.uid}",
        },
    }


def _issuer(access: Access) -> str:
    """One for local and public hosts alike."""
    return f"https://id.{access.domains.mdns}{_REALM}"


def _inside(site: GatewaySite, endpoint: str) -> str:
    """An endpoint of the identity provider as the gateway reaches it."""
    host = f"{_KEYCLOAK}.{site.namespace}.svc.cluster.local:{_KEYCLOAK_PORT}"
    return f"http://{host}{_REALM}/protocol/openid-connect/{endpoint}"


def _sign_in(access: Access, side: Side, site: GatewaySite) -> Object:
    issuer = _issuer(access)
    return {
        "provider": {
            "issuer": issuer,
            "authorizationEndpoint": f"{issuer}/protocol/openid-connect/auth",
            "endSessionEndpoint": f"{issuer}/protocol/openid-connect/logout",
            "tokenEndpoint": _inside(site, "token"),
        },
        "clientID": site.client_id,
        "clientSecret": {"group": "", "kind": "Secret", "name": site.client_secret},
        "redirectURL": f"https://{callback_host(access, side)}{callback_path(access, side, site)}",
        "logoutPath": "/logout",
        "cookieDomain": access.domains.mdns if side == "local" else access.domains.public,
        "cookieNames": {"accessToken": ACCESS_TOKEN_COOKIE, "idToken": ID_TOKEN_COOKIE},
        "forwardAccessToken": True,
        "refreshToken": True,
    }


def _token_check(access: Access, site: GatewaySite) -> Object:
    return {
        "name": _KEYCLOAK,
        "issuer": _issuer(access),
        "remoteJWKS": {
            "uri": _inside(site, "certs"),
            "backendRefs": [_service(_KEYCLOAK, _KEYCLOAK_PORT)],
            "cacheDuration": "300s",
        },
        "extractFrom": {"cookies": [ACCESS_TOKEN_COOKIE]},
    }


def _least_role(role: Role) -> Object:
    claim = {"name": "realm_access.roles", "valueType": "StringArray", "values": allowed_roles(role)}
    rule = {
        "name": "required-magicstick-role",
        "action": "Allow",
        "principal": {"jwt": {"provider": _KEYCLOAK, "claims": [claim]}},
    }
    return {"defaultAction": "Deny", "rules": [rule]}
