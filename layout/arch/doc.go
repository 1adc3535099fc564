// Package arch describes model architectures: shapes only, nothing about how a model is trained.
//
// For most uses call [Lookup] with a name such as "qwen3-235b" and read the [Model] it returns. Three
// questions are answered about a model:
//
//   - [Model.Layers] and [Model.MTPLayers]: what each layer is made of (mixer, MLP or MoE, window);
//   - [Model.Parameters]: how many elements it has in all, and how many a token uses;
//   - [Model.PaddedVocab]: how many vocabulary rows a tensor parallel size makes of its vocabulary.
//
// # Conventions
//
// Field names and JSON keys are Megatron-LM's flag names. Sizes are elements or counts, never bytes.
// Layers are counted from 0 in this package; what users read counts from 1.
//
// Upstream paths are those of NVIDIA/Megatron-LM@d98e8a64dd unless a comment says otherwise.
//
// # Sharing
//
// Models of the catalogue are shared by all callers and read-only: copy one (and the sub-structs behind
// its pointers) before changing it. Everything here is safe for concurrent use.
//
// # Adding a model
//
// Add an entry to catalogue.json with its sources; the tests require sources, a model that Validate
// accepts, and a parameter count that agrees with the recorded one.
package arch
