"""The live page: HTML made here, htmx and server-sent events to keep it up to date.

`part.ShownPage` is what the gateway takes, `site.Site` has the routes. Every text from outside goes through
`markup.text`; nothing on the page is inline.
"""
