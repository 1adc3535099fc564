package megatron

import (
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// routerRules are about the router. They bind dense models too.
var routerRules = []rule{
	{
		Rule: head("balancing-coefficients", "108", inConfig, 1829, "several kinds of balancing have a coefficient each",
			"Losses are weighted one by one."),
		since: "0.14.0",
		broken: func(c *launch) bool {
			n := len(c.s.Value("moe_aux_loss_coeff").Texts())
			return len(c.balancing()) > 1 && (n != len(c.balancing()) || n == 1)
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d values of --moe-router-load-balancing-type and %d of --moe-aux-loss-coeff", len(c.balancing()), len(c.s.Value("moe_aux_loss_coeff").Texts()))
		},
		turn: []string{"--moe-router-load-balancing-type aux_loss"},
	},
	widened("router-expert-bias",
		func(c *launch) bool {
			f := c.str("moe_router_score_function")
			return c.on("moe_router_enable_expert_bias") && f != "sigmoid" && f != "sqrtsoftplus"
		},
		func(c *launch) string {
			return "expert bias with score function " + quoted(c.str("moe_router_score_function"))
		},
		"--moe-router-score-function sigmoid", "--moe-router-enable-expert-bias"),
	widened("router-topk-1-softmax",
		func(c *launch) bool {
			return c.int("moe_router_topk") == 1 && c.str("moe_router_score_function") == "softmax" && !c.on("moe_router_pre_softmax") &&
				!(len(c.balancing()) == 1 && c.balancing()[0] == "sinkhorn")
		},
		says("top-1 routing with softmax after the selection"),
		"--moe-router-pre-softmax", "--moe-router-topk"),
	{
		Rule: head("router-groups-given", "107", inConfig, 2678, "--moe-router-group-topk needs --moe-router-num-groups",
			"Groups are selected first, experts inside them next."),
		broken: func(c *launch) bool { return c.groupTopK() && c.int("moe_router_num_groups") == 0 },
		say: func(c *launch) string {
			return fmt.Sprintf("--moe-router-group-topk %d without --moe-router-num-groups", c.int("moe_router_group_topk"))
		},
		turn: []string{"--moe-router-group-topk", "--moe-router-num-groups"},
	},
	widened("router-groups",
		func(c *launch) bool {
			n := c.int("moe_router_num_groups")
			return c.groupTopK() && n != 0 && (!c.moe() || c.Shape.NumExperts%n != 0)
		},
		func(c *launch) string {
			return fmt.Sprintf("%s not divisible into %d groups", layout.Are(c.Shape.NumExperts, "expert"), c.int("moe_router_num_groups"))
		},
		"--moe-router-num-groups", "--moe-router-group-topk"),
	{
		Rule: head("router-groups-selected", "107", inConfig, 2686, "no more groups are selected than exist",
			"--moe-router-group-topk counts groups."),
		broken: func(c *launch) bool {
			n := c.int("moe_router_num_groups")
			return c.groupTopK() && n != 0 && c.moe() && c.Shape.NumExperts%n == 0 && c.int("moe_router_group_topk") > n
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%d of %d groups are selected", c.int("moe_router_group_topk"), c.int("moe_router_num_groups"))
		},
		turn: []string{"--moe-router-group-topk", "--moe-router-num-groups"},
	},
	{
		Rule: headAt("router-groups-too-small", "", layout.Error, layout.AtFirstStep, "megatron/core/transformer/moe/moe_utils.py:712", "a selected group has enough experts",
			"Groups are ranked by the sum of their best topk / group_topk scores, which a smaller group does not have."),
		run: realLaunch,
		broken: func(c *launch) bool {
			n, g := c.int("moe_router_num_groups"), c.int("moe_router_group_topk")
			return g > 0 && n > 0 && c.moe() && c.Shape.NumExperts%n == 0 && c.int("moe_router_topk")/g > c.Shape.NumExperts/n
		},
		say: func(c *launch) string {
			n, g := c.int("moe_router_num_groups"), c.int("moe_router_group_topk")
			return fmt.Sprintf("top-%d / %d groups = %d experts of a group that has %d / %d = %d", c.int("moe_router_topk"), g, c.int("moe_router_topk")/g,
				c.Shape.NumExperts, n, c.Shape.NumExperts/n)
		},
		turn: []string{"--moe-router-num-groups", "--moe-router-group-topk", "--moe-router-topk"},
	},
}

func (c *launch) groupTopK() bool { return c.int("moe_router_group_topk") != 0 }
