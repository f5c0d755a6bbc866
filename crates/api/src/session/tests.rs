//! Sessions and relays over a real connection.
