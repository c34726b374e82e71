"""The application for a worker of its own process that is to run on uvloop: the policy counts for the loop that is made afterwards."""

import asyncio

import uvloop

from tests.integration.uvloop_app import app

__all__ = ["app"]

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
