// Package picture draws what launches measured: latency against batch size or new tokens, heat maps, measured time over a floor, and how the
// ranks differ. [New] makes the figures of some launches; [Report] writes them as SVG, PNG or one HTML file that needs nothing else.
//
// # Colours
//
// KV lengths are ordered, so their lines take the viridis map (Stéfan van der Walt and Nathaniel Smith, 2015), which stays ordered in grey and for every
// common colour blindness; each line has a marker of its own besides. In SVG and HTML ink, grid and lines are CSS variables: a dark screen gets the
// light end of the map on dark paper, print always dark ink on white. PNG is as print.
//
// # What a line is
//
// Points of one KV length per request are one line; where a grid has more lengths than can be told apart, lengths are rounded to powers of two. Times are
// the slowest rank's, in milliseconds, the median of the launches given. Points with unequal requests are left out of all but the ranks' figure.
package picture
