package layout

const sizesPositive RuleID = "sizes-positive"

var meshRules, attentionRules, sequenceRules, pipelineRules, batchRules, moeRules, routerRules, recomputeRules, overlapRules []Rule
var firingOrder []RuleID
