#!/bin/bash
# Brings the clients of the realm to what this release wants. Keycloak imports a realm only where there is
# none, so that without this an upgrade, a new domain or a new secret would never arrive.
#
# Runs beside Keycloak while it starts, and never in its way: it gives up after 120 attempts, as the startup
# probe does, and what it could not do shows in the log alone. It prints no secret, and passes none as an
# argument. The files clients/*.json say what a client looks like; the realm's file says the same.
#
# Keycloak's image has no programs but bash, those of coreutils, and its own. Not verified against a running
# Keycloak: written for the kcadm.sh of version 26.
set -u

HERE=$(dirname "$0")
PATH=$PATH:/opt/keycloak/bin
ATTEMPTS=120
PAUSE_S=5
SERVER=http://127.0.0.1:8080
REALM=magicstick
export KC_OPTS="-Xmx96m"

admin() {
  kcadm.sh "$@" --config /tmp/sync-clients.config
}

# id ENDPOINT [-q QUERY]: of what is there, or nothing.
id() {
  admin get "$@" -r $REALM --fields id --format csv --noquotes
}

# The account of the first start may have been removed since; then the realm's own client does.
login() {
  KC_CLI_PASSWORD=$KC_BOOTSTRAP_ADMIN_PASSWORD admin config credentials \
    --server $SERVER --realm master --user "$KC_BOOTSTRAP_ADMIN_USERNAME" 2>/dev/null ||
    KC_CLI_CLIENT_SECRET=$MAGICSTICK_SETUP_CLIENT_SECRET admin config credentials \
      --server $SERVER --realm $REALM --client magicstick-setup
}

# sync_client CLIENT SECRET
sync_client() {
  local client
  client=$(id clients -q "clientId=$1") || return
  if [ -z "$client" ]; then
    client=$(admin create clients -r $REALM -f "$HERE/$1.json" -i) || return
  else
    admin update "clients/$client" -r $REALM -f "$HERE/$1.json" || return
  fi
  printf '{"secret": "%s"}' "$2" | admin update "clients/$client" -r $REALM -f -
}

# sync_roles CLIENT ROLE...: exactly these roles of realm-management, for the client's own account.
sync_roles() {
  local client account role present wanted=
  client=$(id clients -q "clientId=$1") && account=$(id "clients/$client/service-account-user") || return
  present=$(admin get-roles -r $REALM --uid "$account" --cclientid realm-management \
    --fields name --format csv --noquotes) || return
  shift
  for role in $present; do
    case " $* " in
      *" $role "*) ;;
      *) admin remove-roles -r $REALM --uid "$account" --cclientid realm-management --rolename "$role" || return ;;
    esac
  done
  for role in "$@"; do
    wanted="$wanted --rolename $role"
  done
  # shellcheck disable=SC2086 # one word each: names of roles have no blanks
  admin add-roles -r $REALM --uid "$account" --cclientid realm-management $wanted
}

sync() {
  sync_client magicstick-human-gateway-local "$MAGICSTICK_HUMAN_GATEWAY_CLIENT_SECRET" &&
    sync_client magicstick-setup "$MAGICSTICK_SETUP_CLIENT_SECRET" &&
    sync_client magicstick-user-admin "$MAGICSTICK_USER_ADMIN_CLIENT_SECRET" &&
    sync_roles magicstick-setup manage-clients view-clients manage-users query-users view-users view-realm &&
    sync_roles magicstick-user-admin manage-users query-users view-users view-realm
}

# Asked of the shell itself, since a program of Java each five seconds would slow Keycloak's start down.
listening() {
  (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null
}

for attempt in $(seq $ATTEMPTS); do
  if listening && login && sync; then
    echo "sync-clients: the realm's clients are as this release wants them"
    exit 0
  fi
  sleep $PAUSE_S
done
echo "sync-clients: gave up after $ATTEMPTS attempts; the realm's clients are as they were before" >&2
exit 1
