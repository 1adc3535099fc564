// Package page writes a plan.Result as one HTML file that needs no network: the answer, then pictures and tables of
// every plan, drawn as SVG on this side so that all of it can be read with JavaScript switched off and printed.
//
// Write writes the file; Body the same without the frame, for a server that replaces it in place. Pictures scale by
// percentages and not by a view box where they hold text, so that the text keeps its size on a phone. Colours are
// those of Okabe and Ito and never say anything alone: each has a label, a texture or a shape beside it.
//
// Plans are chosen by links to their fragments; the style sheet shows the one that is the target. The script only adds
// comfort: it chooses without a jump, sorts, filters, copies and switches the theme.
package page
