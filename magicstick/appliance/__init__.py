"""The Appliance: seeding its defaults, and its status as the one page that tells how it is."""
