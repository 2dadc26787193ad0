"""How a policy acts: episode loop, tools, rendering, policies, rollout engine, replay."""
