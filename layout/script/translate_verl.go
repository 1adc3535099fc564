package script

import (
	"slices"
	"strconv"
	"strings"
)

// verl translates the actor's Megatron keys (verl/trainer/config/engine/megatron.yaml, whose defaults these are).
func (c *Command) verl() {
	const actor = "actor_rollout_ref.actor."
	prompt, response := 0, 0
	for _, a := range c.Args {
		key, value, joined := strings.Cut(strings.TrimLeft(a, "+"), "=")
		if !joined {
			if !isOption(a) {
				c.Unmapped = append(c.Unmapped, Unmapped{a, "", "not an override"})
			}
			continue
		}
		field, isMegatron := strings.CutPrefix(key, actor+"megatron.")
		switch {
		case isMegatron:
			for _, group := range []string{"override_transformer_config.", "override_ddp_config."} {
				field = strings.TrimPrefix(field, group)
			}
			reason := notInTable
			if strings.HasSuffix(field, "_offload") {
				reason = "verl moves it between training and generation; use --reserve-gib for what stays"
			}
			c.put(field, key, value, reason)
		case key == actor+"ppo_micro_batch_size_per_gpu":
			c.put("micro_batch_size", key, value, notInTable)
		case key == "actor_rollout_ref.model.path":
			c.Model = unquote(value)
		case key == "data.max_prompt_length":
			prompt, _ = strconv.Atoi(value)
		case key == "data.max_response_length":
			response, _ = strconv.Atoi(value)
		case strings.HasPrefix(key, "actor_rollout_ref.ref.megatron."), strings.HasPrefix(key, "critic.megatron."),
			strings.HasPrefix(key, "reward_model.megatron."):
			c.Unmapped = append(c.Unmapped, Unmapped{key, value, "a second model; only the actor is planned"})
		case key == actor+"ppo_mini_batch_size":
			c.Unmapped = append(c.Unmapped, Unmapped{key, value, "the global batch is this times the samples per prompt"})
		case strings.Contains(key, "megatron"), strings.HasPrefix(key, actor):
			c.Unmapped = append(c.Unmapped, Unmapped{key, value, notInTable})
		}
	}
	if prompt > 0 && response > 0 {
		c.Megatron = append(c.Megatron, "--seq-length", strconv.Itoa(prompt+response))
	}
	const why = "verl's default"
	c.assume(why, "--use-distributed-optimizer")
	c.assume(why, "--moe-token-dispatcher-type", "alltoall")
	c.assume(why, "--bf16")
	if tp, _ := strconv.Atoi(valueOf(c.Megatron, "--tensor-model-parallel-size")); tp > 1 && !slices.ContainsFunc(c.Args, func(a string) bool {
		return strings.Contains(a, "actor.megatron.sequence_parallel=")
	}) {
		c.assume(why, "--sequence-parallel")
	}
}
