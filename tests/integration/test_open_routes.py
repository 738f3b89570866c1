"""No cluster of a test ends unnoticed in which the operator has opened a route that nothing guards."""

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.rest import Object, Rest
from tests.support.open_routes import watched_to_its_end

ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"


def open_route() -> Object:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {
            "name": "demo-local",
            "namespace": "default",
            "labels": {
                "app.kubernetes.io/managed-by": "magicstick-operator",
                "appliance.magicstick.dev/appinstance": "demo",
            },
        },
        "spec": {"rules": [{"backendRefs": [{"name": "demo", "port": 80}]}]},
    }


@pytest.mark.parametrize("agent", ["magicstick-operator", "kubectl"])
def test_a_cluster_in_which_a_route_led_somewhere_unguarded_fails_the_test_that_ends_it(agent: str) -> None:
    with watched_to_its_end():
        cluster = DevCluster.start(CONTROL_PLANE)
        try:
            cluster.apply(cluster.crd_files("gateway"))
            Rest(cluster.url, token=cluster.admin_token, ca_file=cluster.ca_file, user_agent=agent).request(
                "POST", ROUTES, open_route()
            )
        finally:
            if agent == "kubectl":
                cluster.stop()  # it is no route of the operator's
            else:
                with pytest.raises(AssertionError, match="default/demo-local was exposed by create"):
                    cluster.stop()
        assert not cluster.alive()
