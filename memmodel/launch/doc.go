// Package launch says what a Megatron-LM command line means to memory: the model, the layout and the Run that
// memmodel prices.
//
// Read is all there is. It takes what layout/megatron made of the command line and the plain facts about the
// hardware and software that no command line holds (Hardware):
//
//	settings, err := megatron.Parse(argv, megatron.Main)
//	resolved, err := megatron.Resolve(settings, 256, env)
//	setup, err := launch.Read(resolved, launch.Hardware{SM: 90})
//	estimator, err := memmodel.New(setup.Model, setup.Run)
//	stages, err := estimator.Estimate(&setup.Layout)
//
// Defaults are Megatron-LM's (NVIDIA/Megatron-LM@d98e8a64dd), so they differ from those of memmodel.DefaultRun:
// dropout of 0.1, a causal mask from the data loader, an unfused cross entropy. Environment variables decide
// where TransformerEngine and PyTorch read them. What the command line asks for and memory is not modelled of is
// listed in Setup.Unmodelled, never dropped silently.
package launch
